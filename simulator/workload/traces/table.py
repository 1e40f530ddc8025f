"""From a file and its layout to checked columns: by whole columns, or row by row.

Well-formed CSV and Parquet files are read as columns.  At the slightest doubt the file
is read again row by row, which is slower and can say exactly what is wrong where.
"""

from __future__ import annotations

from collections import Counter
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
    text = source.kind == "csv"
    values: dict[str, list[Any]] = {f.role: [] for f in layout.fields}
    seen = {f.role: f.required for f in layout.fields}
    keys: list[str] | None = None
    found: list[tuple[Field, str | None]] = []
    result = Table({}, 0)
    for record in records(source):
        result.rows_read += 1
        row: dict[str, Any] = {}
        column, cell, rule = None, None, record.fault
        if rule is None:
            if keys != list(record.cells):
                keys = list(record.cells)
                found = [(f, f.find(keys)) for f in layout.fields]
            for f, column in found:
                cell = record.cells.get(column) if column is not None else None
                if not f.required and (cell is None or cell == ""):
                    row[f.role] = f.default
                    continue
                try:
                    row[f.role] = f.kind.parse(cell, result.quirks, text=text)
                except BadCell as bad:
                    column = column or f.names[0]
                    rule = "is missing" if cell is None or cell == "" else str(bad)
                    break
                seen[f.role] = True
            for key in keys:
                if key in layout.unused:
                    result.quirks[key] += 1
        if rule is None:
            column, cell, rule = None, None, _broken(layout, row)
        if rule is None:
            for role, value in row.items():
                values[role].append(value)
        elif on_bad_row == "error" or record.place.startswith("lines"):
            # Nobody knows how many requests a quote that was never closed has swallowed.
            raise InputError(_complaint(source, record.place, column, cell, rule))
        else:
            _count(result.skipped, record.place, column, cell, rule)
    # Optional columns without a default are only there for checks.
    result.columns = {
        f.role: np.array(values[f.role], dtype=f.kind.dtype)
        for f in layout.fields
        if seen[f.role] and (f.required or f.default is not None)
    }
    return result


def _broken(layout: Layout, row: dict[str, Any]) -> str | None:
    """The first rule that the cells of a row break together."""
    for check in layout.checks:
        cells = [row[role] for role in check.roles]
        if None not in cells and not check.holds(*cells):
            return check.rule
    return None


def _show(cell: object) -> str:
    shown = repr(cell)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def _complaint(source: Source, place: str, column: str | None, cell: object, rule: str) -> str:
    if column is None:
        what = f"the row {rule}"
    elif cell is None or cell == "":
        what = f"column {column} {rule}"
    else:
        what = f"column {column}: {_show(cell)} {rule}"
    remedy = (
        "look for a quote that is never closed"
        if place.startswith("lines")
        else "correct the row, or set on_bad_row: skip to leave such rows out"
    )
    return f"{source.path}, {place}: {what}; {remedy}"


def _count(
    skipped: dict[str, Skipped], place: str, column: str | None, cell: object, rule: str
) -> None:
    reason = f"{column} {rule}" if column is not None else f"the row {rule}"
    if reason in skipped:
        skipped[reason].count += 1
    else:
        skipped[reason] = Skipped(1, place, "" if cell is None or cell == "" else _show(cell))


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
