"""Rows of a file one by one: every cell is parsed, every bad row is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from simulator.workload.traces.cells import BadCell
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.records import Record
from simulator.workload.traces.source import Source

Found = list[tuple[Field, str | None]]


def unrolled(
    rows: Iterator[Record], unroll: Callable[[Record], Iterator[Record]] | None
) -> Iterator[Record]:
    """The requests inside the objects of a file; the objects themselves without `unroll`."""
    for record in rows:
        if unroll is None or record.fault is not None:
            yield record
        else:
            yield from unroll(record)


def parsed(
    record: Record, found: Found, layout: Layout, quirks: Counter[str], *, text: bool
) -> dict[str, Any]:
    """The cells of a row by role, or `BadRow`.

    Parameters
    ----------
    found : the layout's fields, each with its column in this row, None where it has none.
    quirks : what is unusual but legal is counted here.
    text : cells are strings, as in CSV.
    """
    if record.fault is not None:
        raise BadRow(None, None, record.fault)
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
            raise BadRow(column or f.names[0], None if empty else cell, rule) from None
    for check in layout.checks:
        cells = [row[role] for role in check.roles]
        if None not in cells and not check.holds(*cells):
            raise BadRow(None, None, check.rule)
    for key in layout.unused:
        if key in record.cells:
            quirks[key] += 1
    return row


class BadRow(Exception):
    """A row that cannot be used: its column (None: the whole row), cell, and why."""

    def __init__(self, column: str | None, cell: object, rule: str) -> None:
        super().__init__(column, cell, rule)
        self.subject = "the row" if column is None else column
        self.reason = f"{self.subject} {rule}"
        self.rule = rule
        shown = "" if cell is None else repr(cell)
        self.shown = shown if len(shown) <= 40 else shown[:37] + "..."

    def sentence(self, source: Source, record: Record) -> str:
        """File, place, column, value, rule and remedy."""
        subject = self.subject if self.subject == "the row" else f"column {self.subject}"
        if self.shown:
            subject = f"{subject}: {self.shown}"
        remedy = (
            "look for a quote that is never closed"
            if record.spans_lines
            else "correct the row, or leave such rows out: on_bad_row: skip (--on-bad-row skip)"
        )
        return f"{source.path}, {record.place}: {subject} {self.rule}; {remedy}"
