"""Print tables without cutting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def print_table(table: Table) -> None:
    """Print as wide as it takes: cut at the width of a pipe, a table would lose figures."""
    from rich.console import Console

    console = Console()
    wide = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)
