"""Figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.report.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150


def save_plots(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write each figure as NAME.png and NAME.svg; the same figure gives the same bytes.

    Text in the SVG stays text, which can be searched and restyled.
    """
    import matplotlib

    written = []
    for name, figure in figures.items():
        for form, fact in (("png", "Software"), ("svg", "Date")):
            path = folder / f"{name}.{form}"
            draw = partial(figure.savefig, format=form, dpi=DOTS_PER_INCH, metadata={fact: None})
            with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
                write_atomically(path, draw)
            written.append(path)
    return written
