"""How latencies are spread: tails of inter-token gaps, distributions per request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from simulator.metrics.latency import Floats, e2el_s, ttft_s
from simulator.recording import FINISHED, Recording
from simulator.report.block import readable_s
from simulator.report.plots import style
from simulator.report.plots.series import ccdf, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from simulator.simulation import Result

LEAST_SHARE = 1e-5
Place = Literal["lower right", "outside upper left"]


def plot_itl(result: Result) -> Figure:
    """Share of inter-token gaps longer than a time, both on logarithmic axes."""
    figure = style.new_figure(5.2, 3.6)
    axes = figure.subplots()
    draw_itl(axes, [("ITL", result.recording)])
    return figure


def plot_latency(result: Result) -> Figure:
    """Distribution of TTFT and of end-to-end latency over completed requests."""
    outcome = result.recording.outcome
    done = outcome.status == FINISHED
    figure = style.new_figure(5.2, 3.6)
    axes = figure.subplots()
    draw_cdf(axes, [("TTFT", ttft_s(outcome)[done]), ("E2EL", e2el_s(outcome)[done])])
    style.title(axes, "Latency of requests")
    curve_names(axes, "lower right", axes)
    return figure


def draw_itl(axes: Axes, runs: Sequence[tuple[str, Recording]]) -> None:
    """Complementary distribution of inter-token gaps, one curve per run."""
    for index, (name, recording) in enumerate(runs):
        value, above = gaps_above(recording)
        colour = style.SERIES[index % len(style.SERIES)]
        if not len(value):
            continue
        # The curve ends at 0, which a logarithmic axis cannot show: let it leave the plot.
        x = np.concatenate(([value[0]], value))
        y = np.concatenate(([1.0], np.maximum(above, LEAST_SHARE / 10)))
        axes.step(x, y, where="post", color=colour, linewidth=1.6, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(LEAST_SHARE, 1.3)
    axes.minorticks_off()
    axes.set_yticks([1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5])
    axes.set_yticklabels(["all", "10 %", "1 %", "0.1 %", "0.01 %", "0.001 %"])
    _time_axis(axes)
    style.quiet(axes, grid="both")
    style.label(axes, x="gap between two tokens of a request", y="gaps that are longer")
    style.title(axes, "Inter-token latency")


def draw_cdf(axes: Axes, samples: Sequence[tuple[str, Floats]]) -> None:
    """Cumulative distributions over a logarithmic time axis, one curve per sample."""
    for index, (name, seconds) in enumerate(samples):
        value, share = cumulative(seconds)
        if not len(value):
            continue
        axes.step(
            value, share, where="post", color=style.SERIES[index % len(style.SERIES)],
            linewidth=1.6, label=name,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_yticklabels(["0", "25 %", "50 %", "75 %", "100 %"])
    _time_axis(axes)
    style.quiet(axes, grid="both")
    style.label(axes, x="time from arrival", y="requests that are faster")


def gaps_above(recording: Recording, points: int = 2000) -> tuple[Floats, Floats]:
    """Gaps between tokens, sorted, and the share of all gaps above each; thinned."""
    gaps = recording.gaps
    some = gaps.gap_s > 0
    return thin(*ccdf(gaps.gap_s[some], gaps.count[some]), points)


def cumulative(seconds: Floats, points: int = 2000) -> tuple[Floats, Floats]:
    """Times above 0, sorted, and the share of them at or below each; thinned."""
    value = np.sort(seconds[seconds > 0])
    return thin(value, np.arange(1, len(value) + 1) / max(len(value), 1), points)


def _time_axis(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _tick(seconds: float) -> str:
    """A power of ten on a time axis."""
    return readable_s(seconds) if seconds < 1 else f"{seconds:,.0f} s"


def curve_names(holder: Axes | SubFigure, where: Place, curves: Axes) -> None:
    """Names of the curves in their own colours, in place of a legend's line samples.

    They stand in `holder`: the axes with the curves, or the figure around them.
    """
    holder.legend(
        handles=curves.lines,
        loc=where,
        frameon=False,
        fontsize=style.FONT_SIZE,
        labelcolor="linecolor",
        handlelength=0,
        handletextpad=0,
        ncols=1 if holder is curves else len(curves.lines),
        columnspacing=1.4,
    )
