"""From a file and its layout to checked columns.

Well-formed rows of CSV and Parquet files are read as columns.  Where there is the slightest
doubt they are read again row by row, which is slower and can say exactly what is wrong where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np

from simulator.errors import InputError
from simulator.workload.traces.layout import Columns, Layout
from simulator.workload.traces.pieces import Piece, columns_of, pieces
from simulator.workload.traces.records import Record, column_names, damaged, records
from simulator.workload.traces.rows import BadRow, Found, parsed, unrolled
from simulator.workload.traces.source import UNREADABLE, Source

OnBadRow = Literal["error", "skip"]

BATCH = 1 << 16  # rows that are kept as Python objects at a time
HOPELESS = 50_000  # bad rows before the first good one: the file is another than was meant


@dataclass
class Skipped:
    """Bad rows of one kind: how many, and the first of them."""

    count: int
    first_place: str
    first_value: str


@dataclass
class Table:
    """Checked columns of a trace file by role, in the order of the file.

    Attributes
    ----------
    columns : one array per role.
    rows_read : rows in the file, bad ones included.
    skipped : bad rows by what is wrong with them.
    quirks : how often something unusual but legal was seen.
    """

    columns: Columns
    rows_read: int
    skipped: dict[str, Skipped] = field(default_factory=dict)
    quirks: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read_table(source: Source, layout: Layout, on_bad_row: OnBadRow) -> Table:
    """Read and check the columns of `layout`.

    Raises
    ------
    InputError
        for the first bad row, unless `on_bad_row` is "skip", and when no row is left.
    """
    names = column_names(source) if source.kind in ("csv", "parquet") else []
    parts = pieces(source, names)
    builder = _Builder(source, layout, names, on_bad_row)
    try:
        if parts is None:
            builder.add_records(unrolled(records(source), layout.unroll))
        else:
            for piece in parts:
                builder.add_piece(piece)
    except UNREADABLE as error:
        raise damaged(source, error) from error
    table = builder.table()
    if not len(table):
        raise builder.nothing_usable(f"{table.rows_read}")
    return table


class _Builder:
    """Columns that grow piece by piece."""

    def __init__(
        self, source: Source, layout: Layout, names: list[str], on_bad_row: OnBadRow
    ) -> None:
        self._source, self._layout, self._on_bad_row = source, layout, on_bad_row
        found = [(f, f.find(names)) for f in layout.fields]
        self._wanted = [(f, name) for f, name in found if name is not None]
        self._present = {f.role for f, _ in self._wanted}
        # Optional columns without a default are only there for checks.
        self._kept = [f for f in layout.fields if f.required or f.default is not None]
        self._parts: dict[str, list[Any]] = {f.role: [] for f in self._kept}
        self._good = 0
        self._result = Table({}, 0)

    def add_piece(self, piece: Piece) -> None:
        """As columns, or by halves, or row by row."""
        found = columns_of(piece, self._wanted, self._layout, self._result.quirks)
        if found is not None:
            columns, count = found
            for role, parts in self._parts.items():
                if role in columns:
                    parts.append(columns[role])
            self._good += count
            self._result.rows_read += count
            return
        halves = piece.halves()
        if halves is None:
            self.add_records(piece.records())
            return
        for half in halves:
            self.add_piece(half)

    def add_records(self, rows: Iterable[Record]) -> None:
        """Row by row."""
        good = self._good_rows(iter(rows))
        while batch := list(islice(good, BATCH)):
            for f in self._kept:
                cells = np.array([row[f.role] for row in batch], dtype=f.kind.dtype)
                self._parts[f.role].append(cells)

    def _good_rows(self, rows: Iterator[Record]) -> Iterator[dict[str, Any]]:
        layout, result = self._layout, self._result
        keys: list[str] | None = None
        found: Found = []
        for record in rows:
            result.rows_read += 1
            if record.fault is None and keys != list(record.cells):
                keys = list(record.cells)
                found = [(f, f.find(keys)) for f in layout.fields]
                self._present.update(f.role for f, column in found if column is not None)
            try:
                row = parsed(record, found, layout, result.quirks, text=self._source.kind == "csv")
            except BadRow as bad:
                self._leave_out(record, bad)
            else:
                self._good += 1
                yield row

    def _leave_out(self, record: Record, bad: BadRow) -> None:
        # Nobody knows how many requests a quote that was never closed has swallowed.
        if self._on_bad_row == "error" or record.spans_lines:
            raise InputError(bad.sentence(self._source, record)) from None
        skipped = self._result.skipped
        kind = skipped.setdefault(bad.reason, Skipped(0, record.place, bad.shown))
        kind.count += 1
        if self._result.rows_read == HOPELESS and not self._good:
            raise self.nothing_usable(f"first {HOPELESS:,}")

    def nothing_usable(self, rows: str) -> InputError:
        """The error for a file without a good row."""
        found = "no rows"
        if self._result.rows_read:
            found = f"none of its {rows} rows is usable{summary(self._result)}"
        return InputError(f"{self._source.path}: {found}; nothing to simulate")

    def table(self) -> Table:
        """Everything so far."""
        self._result.columns = {
            f.role: np.concatenate(self._parts[f.role] or [np.empty(0, f.kind.dtype)])
            for f in self._kept
            if f.required or f.role in self._present
        }
        return self._result


def summary(table: Table) -> str:
    """What was left out and why, as the rest of a sentence; empty when nothing was."""
    if not table.skipped:
        return ""
    reasons = [
        f"{s.count} where {reason} (first at {s.first_place}"
        f"{': ' * bool(s.first_value)}{s.first_value})"
        for reason, s in sorted(table.skipped.items(), key=lambda item: -item[1].count)
    ]
    return ": " + "; ".join(reasons)
