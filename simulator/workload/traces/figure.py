"""A page of plots of a trace: when requests come, how unevenly, and how long they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.report.plots import style
from simulator.workload.requests import Floats
from simulator.workload.traces.statistics import dispersion
from simulator.workload.traces.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS = 120
POINTS = 2000  # of a curve; more cannot be seen
FORMATS = (".svg", ".png", ".pdf")


def save_figure(trace: Trace, path: Path) -> None:
    """Write the page; the suffix of `path` tells the format.

    Raises
    ------
    InputError
        Another suffix, or the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: plots are written as {', '.join(FORMATS)}; rename the file")
    try:
        plot_trace(trace).savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; name another file") from None


def plot_trace(trace: Trace) -> Figure:
    """Six panels on one page, and three more for sessions."""
    sessions = "turn" in trace.extra
    figure = style.new_page(10.5, 9.2 if sessions else 6.2)
    axes = figure.subplots(3 if sessions else 2, 3).ravel()
    start_s = trace.arrival_s[trace.starts]
    what = "sessions" if sessions else "requests"
    _rate(axes[0], start_s, what)
    _gaps(axes[1], start_s)
    _dispersion(axes[2], start_s)
    _lengths(axes[3], "Prompts", trace.prompt_tokens, style.PREFILL)
    _lengths(axes[4], "Outputs", trace.output_tokens, style.DECODE)
    _both(axes[5], trace)
    if sessions:
        _turns(axes[6], np.diff(trace.starts, append=len(trace)))
        _think(axes[7], trace.extra["think_s"][trace.extra["turn"] > 0])
        _growth(axes[8], trace)
    figure.suptitle(
        f"{Path(trace.path).name}: {len(trace):,} requests, {trace.format}",
        fontsize=style.FONT_SIZE + 2, color=style.INK, x=0.01, ha="left",
    )  # fmt: skip
    return figure


def _rate(axes: Axes, start_s: Floats, what: str) -> None:
    span_s = float(start_s[-1]) or 1.0
    counts, edges = np.histogram(start_s, bins=BARS, range=(0.0, span_s))
    unit, name = next((u, n) for u, n in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))
                      if span_s >= 2 * u or u == 1)  # fmt: skip
    axes.stairs(counts / np.diff(edges), edges / unit, color=style.KV, fill=True, alpha=0.8)
    style.quiet(axes)
    style.label(axes, x=f"time ({name})", y=f"{what} per second")
    style.title(axes, "Rate")


def _gaps(axes: Axes, start_s: Floats) -> None:
    """Survival function of the gaps beside that of a Poisson process."""
    gaps = np.sort(np.diff(start_s))
    style.title(axes, "Gaps between arrivals")
    style.label(axes, x="gap (s)", y="gaps that are longer")
    style.quiet(axes, grid="both")
    if not len(gaps) or gaps[-1] <= 0:
        style.title(axes, "Gaps between arrivals", "all at once")
        return
    longer = 1 - np.arange(len(gaps)) / len(gaps)
    shown = _thin(len(gaps))
    axes.plot(gaps[shown], longer[shown], color=style.DECODE, linewidth=1.6, label="trace")
    x = np.linspace(0, float(gaps[-1]), 400)
    poisson = np.exp(-x / gaps.mean())
    axes.plot(x, poisson, color=style.INK, linewidth=1, linestyle="--", label="Poisson")
    axes.set_yscale("log")
    axes.set_ylim(0.5 / len(gaps), 1.3)
    axes.legend(frameon=False, fontsize=style.FONT_SIZE - 1, labelcolor=style.INK)


def _dispersion(axes: Axes, start_s: Floats) -> None:
    span_s = float(start_s[-1]) or 1.0
    found = dispersion(start_s, np.geomspace(span_s / len(start_s), span_s / 20, 16).tolist())
    widths = [float(width) for width in found]
    style.quiet(axes, grid="both")
    style.label(axes, x="width of the windows (s)", y="variance / mean of counts")
    style.title(axes, "Index of dispersion", "Poisson: 1" if found else "too short to tell")
    if not found:
        return
    axes.plot(widths, list(found.values()), "o-", color=style.STALLED, linewidth=1.6)
    axes.axhline(1.0, color=style.INK, linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")


def _lengths(axes: Axes, name: str, tokens: NDArray[Any], colour: str) -> None:
    values = np.sort(tokens)
    share = np.arange(1, len(values) + 1) / len(values)
    shown = _thin(len(values))
    axes.step(values[shown], share[shown], where="post", color=colour, linewidth=1.6)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    style.quiet(axes, grid="both")
    style.label(axes, x="tokens", y="share that is shorter")
    style.title(axes, name, f"median {np.median(values):,.0f}, longest {values[-1]:,}")


def _turns(axes: Axes, turns: NDArray[Any]) -> None:
    axes.hist(turns, bins=min(40, int(turns.max())), color=style.KV, alpha=0.8)
    style.quiet(axes)
    style.label(axes, x="requests of a session", y="sessions")
    style.title(axes, "Sessions", f"mean {turns.mean():.3g}, most {turns.max()}")


def _think(axes: Axes, think_s: NDArray[Any]) -> None:
    style.quiet(axes, grid="both")
    style.label(axes, x="from an answer to the next turn (s)", y="share that is shorter")
    style.title(axes, "Think times", f"median {np.median(think_s):.3g} s" if len(think_s) else "")
    if len(think_s):
        values = np.sort(think_s)
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(values, share, where="post", color=style.STALLED, linewidth=1.6)
        axes.set_xscale("symlog", linthresh=0.1)
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.02)


def _growth(axes: Axes, trace: Trace) -> None:
    """Prompts grow with the turns, since they repeat what was said."""
    turn = trace.extra["turn"]
    most = int(turn.max()) + 1
    median = [float(np.median(trace.prompt_tokens[turn == k])) for k in range(most)]
    axes.plot(np.arange(most) + 1, median, color=style.PREFILL, linewidth=1.6)
    axes.set_ylim(bottom=0)
    style.quiet(axes)
    style.label(axes, x="turn", y="prompt tokens, median")
    style.title(axes, "Prompts by turn")


def _both(axes: Axes, trace: Trace) -> None:
    axes.hexbin(
        trace.prompt_tokens, trace.output_tokens, xscale="log", yscale="log", bins="log",
        gridsize=40, mincnt=1, cmap="Blues", linewidths=0,
    )  # fmt: skip
    style.quiet(axes, grid="both")
    style.label(axes, x="prompt tokens", y="output tokens")
    style.title(axes, "Prompts and outputs")


def _thin(count: int) -> NDArray[np.int64]:
    """Places of at most about `POINTS` of so many, the ends among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(np.int64))
