"""A file in pieces that are read as columns, so that one bad row costs only its neighbours.

A piece that has anything unexpected in it is halved, and halved again, until a few rows are
left to be read one by one.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from simulator.workload.traces.cells import BadCell, Stamp
from simulator.workload.traces.layout import Columns, Field, Layout
from simulator.workload.traces.records import Record, csv_records, parquet_file
from simulator.workload.traces.source import UNREADABLE, Source

PIECE_BYTES, LEAST_BYTES = 1 << 25, 1 << 14
PIECE_ROWS, LEAST_ROWS = 1 << 18, 1 << 9

Wanted = list[tuple[Field, str]]


class Piece(Protocol):
    """Consecutive rows of a file."""

    def table(self, wanted: Wanted) -> pa.Table | None:
        """The wanted columns; None where they are not as expected."""

    def records(self) -> Iterator[Record]:
        """The rows one by one."""

    def halves(self) -> tuple[Piece, Piece] | None:
        """Two pieces in place of this one; None when it is small."""


def pieces(source: Source, names: list[str]) -> Iterator[Piece] | None:
    """A CSV or Parquet file from its first row to its last; None where it cannot be divided."""
    if source.kind == "csv":
        return _csv_pieces(source, names)
    return _parquet_pieces(source) if source.kind == "parquet" else None


def columns_of(
    piece: Piece, wanted: Wanted, layout: Layout, quirks: Counter[str]
) -> tuple[Columns, int] | None:
    """Checked columns by role and their number of rows; None where any row may be bad."""
    table = piece.table(wanted)
    if table is None:
        return None
    columns: Columns = {}
    zoned: Counter[str] = Counter()
    for f, name in wanted:
        cells = table[name]
        if not f.required and f.default is not None and cells.null_count:
            cells = pc.fill_null(cells, f.default)
        values = f.kind.take(cells)
        if values is None:
            return None
        columns[f.role] = values
        if isinstance(f.kind, Stamp):
            zoned[f"moments {'with' if cells.type.tz else 'without'} a zone"] += len(values)
    for check in layout.checks:
        cells = [columns[role] for role in check.roles if role in columns]
        if len(cells) == len(check.roles) and not np.all(check.holds(*cells)):
            return None
    quirks.update(zoned)
    return columns, table.num_rows


@dataclass(frozen=True)
class _CsvPiece:
    """Whole lines, the first of them number `line` of the file."""

    path: Path
    names: list[str]
    data: bytes
    line: int

    def table(self, wanted: Wanted) -> pa.Table | None:
        first = next(self.records(), None)
        if first is None or first.fault is not None:
            return None
        types = {
            name: _stamp_type(first, name) if isinstance(f.kind, Stamp) else f.kind.arrow_type
            for f, name in wanted
        }
        # Threads may outlive a failed read, and abort a process that ends at once.
        threads = len(self.data) > 1 << 22
        try:
            return pacsv.read_csv(
                pa.BufferReader(self.data),
                read_options=pacsv.ReadOptions(
                    column_names=self.names, block_size=1 << 22, use_threads=threads
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=types, include_columns=list(types), null_values=[""]
                ),
            )
        except UNREADABLE:
            return None

    def records(self) -> Iterator[Record]:
        return csv_records(pa.BufferReader(self.data), self.names, self.path, first_line=self.line)

    def halves(self) -> tuple[Piece, Piece] | None:
        cut = self.data.find(b"\n", len(self.data) // 2) + 1
        if len(self.data) < LEAST_BYTES or cut in (0, len(self.data)):
            return None
        first, second = self.data[:cut], self.data[cut:]
        if first.count(b'"') % 2:
            return None  # the cut would be inside a cell
        line = self.line + _line_ends(first)
        return (
            _CsvPiece(self.path, self.names, first, self.line),
            _CsvPiece(self.path, self.names, second, line),
        )


def _csv_pieces(source: Source, names: list[str]) -> Iterator[Piece] | None:
    with source.open() as stream:
        head = stream.read(1 << 20)
    start = head.find(b"\n") + 1
    header = head[:start].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    if header.count('"') % 2 or "\r" in header.rstrip("\r\n"):
        return None
    if [name.strip() for name in next(csv.reader(io.StringIO(header)), [])] != names:
        return None  # empty lines before it, or no line end after it
    return _cut(source, names, start)


def _cut(source: Source, names: list[str], start: int) -> Iterator[Piece]:
    line, rest = 2, b""
    with source.open() as stream:
        stream.read(start)
        while more := stream.read(PIECE_BYTES):
            data = rest + more
            end = data.rfind(b"\n") + 1
            # Inside a quoted cell no line is at its end.
            if not end or data.count(b'"', 0, end) % 2:
                rest = data
                continue
            yield _CsvPiece(source.path, names, data[:end], line)
            line += _line_ends(data[:end])
            rest = data[end:]
    if rest:
        yield _CsvPiece(source.path, names, rest, line)


def _line_ends(data: bytes) -> int:
    r"""Lines that end in `data`, by \n, \r or \r\n."""
    ends = data.count(b"\n")
    return ends + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else ends


def _stamp_type(first: Record, name: str) -> pa.DataType:
    """Arrow reads moments all with a zone or all without; the first row tells which."""
    quirks: Counter[str] = Counter()
    try:
        Stamp().parse(first.cells[name], quirks, text=True)
    except BadCell:
        return pa.timestamp("ns")
    return pa.timestamp("ns", "UTC") if quirks["moments with a zone"] else pa.timestamp("ns")


@dataclass(frozen=True)
class _ParquetPiece:
    """Rows of a batch, the first of them number `row` of the file."""

    batch: pa.RecordBatch
    row: int

    def table(self, wanted: Wanted) -> pa.Table | None:
        return pa.Table.from_batches([self.batch]).select([name for _, name in wanted])

    def records(self) -> Iterator[Record]:
        for number, cells in enumerate(self.batch.to_pylist(), self.row):
            yield Record(f"row {number}", cells)

    def halves(self) -> tuple[Piece, Piece] | None:
        half = len(self.batch) // 2
        if half < LEAST_ROWS:
            return None
        first, second = self.batch.slice(0, half), self.batch.slice(half)
        return _ParquetPiece(first, self.row), _ParquetPiece(second, self.row + half)


def _parquet_pieces(source: Source) -> Iterator[Piece]:
    row = 1
    for batch in parquet_file(source).iter_batches(PIECE_ROWS):
        yield _ParquetPiece(batch, row)
        row += len(batch)
