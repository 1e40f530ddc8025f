"""One look for every plot: colours that colour-blind readers can tell apart, quiet axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008).
DECODE = "#0072B2"
PREFILL = "#E69F00"
PADDING = "#F5DD8C"
STALLED = "#D55E00"
BUBBLE = "#BDBDBD"
KV = "#009E73"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#000000")

# Text, axes and lines that must be seen on light and dark pages alike: report.html turns
# this exact colour into the page's own text colour.
INK = "#1b1f24"
FAINT = "#8b9199"

FONT_SIZE = 9.0


def new_figure(width: float, height: float, *, header: float = 0.35) -> Figure:
    """An empty figure, in inches, bound to no window system and no global state.

    Margins are fixed, `header` above the axes, since finding them out by drawing everything
    twice takes longer than the plot.
    """
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.subplots_adjust(
        left=0.72 / width,
        right=1 - 0.15 / width,
        bottom=0.5 / height,
        top=1 - header / height,
        hspace=0.12,
    )
    return figure


def new_page(width: float, height: float) -> Figure:
    """An empty figure, in inches, for many panels whose margins are found out by drawing."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def quiet(axes: Axes, *, grid: str | None = "y") -> None:
    """Take away what carries no information: frame, ticks, heavy grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
        axes.spines[side].set_linewidth(0.8)
    axes.tick_params(colors=INK, labelsize=FONT_SIZE - 1, length=3, width=0.8, color=FAINT)
    axes.tick_params(which="minor", length=0)
    if grid is not None:
        axes.grid(axis=grid, color=FAINT, alpha=0.25, linewidth=0.6)  # type: ignore[arg-type]
        axes.set_axisbelow(True)


def label(axes: Axes, *, x: str | None = None, y: str | None = None) -> None:
    """Axis titles, with their unit in brackets."""
    if x is not None:
        axes.set_xlabel(x, fontsize=FONT_SIZE, color=INK)
    if y is not None:
        axes.set_ylabel(y, fontsize=FONT_SIZE, color=INK)


def title(axes: Axes, text: str, note: str = "") -> None:
    """A title at the left, and what goes with it in lighter type at the right."""
    axes.set_title(text, loc="left", fontsize=FONT_SIZE + 1.5, fontweight="bold", color=INK)
    if note:
        axes.set_title(note, loc="right", fontsize=FONT_SIZE - 0.5, color=INK)
