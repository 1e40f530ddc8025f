"""The fixed-width block of ``vllm bench serve``: 50 columns, labels padded to 40."""

from __future__ import annotations

import math
import textwrap
from typing import Any

WIDTH = 50
LABEL = 40
WRAP = 88


def header(title: str, fill: str = "-") -> str:
    """A title in the middle of a 50-column rule."""
    return f"{title:{fill}^{WIDTH}}"


def line(label: str, value: Any) -> str:
    """A label padded to 40 columns and its value: whole numbers plain, others 2 decimals."""
    return f"{label:<{LABEL}} {number(value)}"


def number(value: Any) -> str:
    """A figure as the block prints it; ``n/a`` for one that does not exist."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def readable_s(seconds: float) -> str:
    """A time with three digits in the unit that fits: 12 ms, 1.5 s, 40 min."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:,.0f} min"


def wrapped(text: str, bullet: str = "") -> list[str]:
    """A sentence on as many lines as it takes, continued under its beginning."""
    return textwrap.wrap(
        text,
        WRAP,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
