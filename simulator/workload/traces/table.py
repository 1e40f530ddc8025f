"""From a file and its layout to checked columns: by whole columns, or row by row.

Well-formed CSV and Parquet files are read as columns.  At the slightest doubt the file
is read again row by row, which is slower and can say exactly what is wrong where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from simulator.errors import InputError
from simulator.workload.traces.cells import BadCell, CellKind, Stamp
from simulator.workload.traces.layout import Columns, Field, Layout
from simulator.workload.traces.records import Record, column_names, parquet_file, records
from simulator.workload.traces.source import UNREADABLE, Source

OnBadRow = Literal["error", "skip"]


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
    table = read_columns(source, layout) or read_rows(source, layout, on_bad_row)
    if not len(table):
        found = f"none of its {table.rows_read} rows is usable" if table.rows_read else "no rows"
        raise InputError(f"{source.path}: {found}{summary(table)}; nothing to simulate")
    return table


def read_columns(source: Source, layout: Layout) -> Table | None:
    """The fast way; None when anything at all is not as expected."""
    if source.kind not in ("csv", "parquet"):
        return None
    names = column_names(source)
    wanted = [(f, f.find(names)) for f in layout.fields]
    found = [(f, name) for f, name in wanted if name is not None]
    try:
        if source.kind == "csv":
            kinds = {name: f.kind for f, name in found}
            table = _arrow_csv(source, names, kinds)
        else:
            table = parquet_file(source).read(columns=[name for _, name in found])
    except (InputError, *UNREADABLE):
        return None
    if table is None:
        return None
    columns: Columns = {}
    for f, name in found:
        values = f.kind.take(table[name])
        if values is None:
            return None
        columns[f.role] = values
    for check in layout.checks:
        cells = [columns[role] for role in check.roles if role in columns]
        if len(cells) == len(check.roles) and not np.all(check.holds(*cells)):
            return None
    return Table(columns, table.num_rows)


def _arrow_csv(source: Source, names: list[str], kinds: dict[str, CellKind]) -> pa.Table | None:
    first = next(records(source), None)
    if first is None or first.fault is not None or first.place != "line 2":
        return None
    types = {
        name: _stamp_type(first, name) if isinstance(kind, Stamp) else kind.arrow_type
        for name, kind in kinds.items()
    }
    with source.open() as stream:
        return pacsv.read_csv(
            stream,
            read_options=pacsv.ReadOptions(skip_rows=1, column_names=names, block_size=1 << 22),
            convert_options=pacsv.ConvertOptions(column_types=types, include_columns=list(types)),
        )


def _stamp_type(first: Record, name: str) -> pa.DataType:
    """Arrow reads moments all with a zone or all without; the first row tells which."""
    quirks: Counter[str] = Counter()
    try:
        Stamp().parse(first.cells[name], quirks, text=True)
    except BadCell:
        return pa.timestamp("ns")
    return pa.timestamp("ns", "UTC") if quirks["moments with a zone"] else pa.timestamp("ns")


def read_rows(source: Source, layout: Layout, on_bad_row: OnBadRow) -> Table:
    """The precise way: every cell is parsed, every bad row is told."""
    values: dict[str, list[Any]] = {f.role: [] for f in layout.fields}
    keys: list[str] | None = None
    found: list[tuple[Field, str | None]] = []
    present: set[str] = set()
    result = Table({}, 0)
    rows = records(source)
    for record in rows if layout.unroll is None else unrolled(rows, layout.unroll):
        result.rows_read += 1
        if record.fault is None and keys != list(record.cells):
            keys = list(record.cells)
            found = [(f, f.find(keys)) for f in layout.fields]
            present.update(f.role for f, column in found if column is not None)
        try:
            row = _parsed(record, found, layout, result.quirks, text=source.kind == "csv")
        except _BadRow as bad:
            # Nobody knows how many requests a quote that was never closed has swallowed.
            if on_bad_row == "error" or record.spans_lines:
                raise InputError(bad.sentence(source, record)) from None
            skipped = result.skipped.setdefault(bad.reason, Skipped(0, record.place, bad.shown))
            skipped.count += 1
        else:
            for role, value in row.items():
                values[role].append(value)
    # Optional columns without a default are only there for checks.
    result.columns = {
        f.role: np.array(values[f.role], dtype=f.kind.dtype)
        for f in layout.fields
        if f.required or (f.role in present and f.default is not None)
    }
    return result


def unrolled(
    rows: Iterator[Record], unroll: Callable[[Record], Iterator[Record]]
) -> Iterator[Record]:
    """The requests inside the objects of a file."""
    for record in rows:
        if record.fault is not None:
            yield record
        else:
            yield from unroll(record)


def _parsed(
    record: Record,
    found: list[tuple[Field, str | None]],
    layout: Layout,
    quirks: Counter[str],
    *,
    text: bool,
) -> dict[str, Any]:
    """The cells of a row by role, or `_BadRow`."""
    if record.fault is not None:
        raise _BadRow(None, None, record.fault)
    row: dict[str, Any] = {}
    for f, column in found:
        cell = record.cells.get(column) if column is not None else None
        empty = cell is None or cell == ""
        if empty and not f.required:
            row[f.role] = f.default
            continue
        try:
            row[f.role] = f.kind.parse(cell, quirks, text=text)
        except BadCell as bad:
            rule = "is missing" if empty else str(bad)
            raise _BadRow(column or f.names[0], None if empty else cell, rule) from None
    for check in layout.checks:
        cells = [row[role] for role in check.roles]
        if None not in cells and not check.holds(*cells):
            raise _BadRow(None, None, check.rule)
    for key in layout.unused:
        if key in record.cells:
            quirks[key] += 1
    return row


class _BadRow(Exception):
    """A row that cannot be used: its column (None: the whole row), cell, and why."""

    def __init__(self, column: str | None, cell: object, rule: str) -> None:
        super().__init__(column, cell, rule)
        self.subject = "the row" if column is None else column
        self.reason = f"{self.subject} {rule}"
        self.rule = rule
        shown = "" if cell is None else repr(cell)
        self.shown = shown if len(shown) <= 40 else shown[:37] + "..."

    def sentence(self, source: Source, record: Record) -> str:
        subject = self.subject if self.subject == "the row" else f"column {self.subject}"
        if self.shown:
            subject = f"{subject}: {self.shown}"
        remedy = (
            "look for a quote that is never closed"
            if record.spans_lines
            else "correct the row, or set on_bad_row: skip to leave such rows out"
        )
        return f"{source.path}, {record.place}: {subject} {self.rule}; {remedy}"


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
