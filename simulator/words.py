"""Words of the sentences that people read."""

from __future__ import annotations


def counted(n: float, noun: str) -> str:
    """A number of things, as in "1 row" and "2,000 rows"."""
    return f"{n:,.0f} {noun}" + ("" if n == 1 else "s")
