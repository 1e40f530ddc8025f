"""A table of one row under headings of several lines, equal neighbours merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple


class Column(NamedTuple):
    """Headings from the top down, and the value below them."""

    headings: tuple[str, ...]
    value: float | str


def ascii_table(columns: Sequence[Column]) -> str:
    """Draw it with ``|``, ``=`` and ``-``, one decimal, ``--`` where there is no figure."""
    cells = [_cell(column.value) for column in columns]
    widths = [
        max(len(cell), *map(len, column.headings)) + 1
        for column, cell in zip(columns, cells, strict=True)
    ]
    lines = [_rule(widths, "=")]
    lines += [_headings(columns, widths, level) for level in range(len(columns[0].headings))]
    values = "|".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "\n".join([*lines, _rule(widths, "-"), f"|{values}|", _rule(widths, "=")])


def _headings(columns: Sequence[Column], widths: Sequence[int], level: int) -> str:
    """One line of headings; those of a group that is the same above as well are one cell."""
    parts = []
    for names, members in groupby(range(len(columns)), lambda k: columns[k].headings[: level + 1]):
        places = list(members)
        width = sum(widths[k] for k in places) + len(places) - 1
        parts.append(names[-1].ljust(width))
    return f"|{'|'.join(parts)}|"


def _rule(widths: Sequence[int], fill: str) -> str:
    return f"|{'|'.join(fill * width for width in widths)}|"


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "--" if math.isnan(value) else f"{value:.1f}"
