"""Variants of one scenario under the same arrivals, at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulator.metrics.latency import ttft_s
from simulator.recording import FINISHED
from simulator.report.block import readable_s
from simulator.report.plots import style
from simulator.report.plots.distributions import curve_names, draw_cdf, draw_itl
from simulator.report.plots.series import Window
from simulator.report.plots.timeline import (
    default_window,
    draw_occupancy,
    draw_queue,
    legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.simulation import Result


def plot_comparison(results: Mapping[str, Result], window: Window | None = None) -> Figure:
    """One row per variant: who holds the seats, step by step, and who waits behind them.

    All rows show the same stretch of simulated time on the same scale, so that blocked
    queues (a growing line below), stalled streams and locked slots stand out.  At the
    right, inter-token gaps and times to first token of the whole runs.

    Parameters
    ----------
    results : by name of the variant, in the order to draw.
    window : (from, to) in simulated seconds; by default where most is lost to
        stalls and locked slots.
    """
    recordings = {name: result.recording for name, result in results.items()}
    if window is None:
        window = default_window(list(recordings.values()))
    rows = len(results)
    figure = style.new_page(14, 1.0 + 2.3 * max(rows, 2))
    halves: Any = figure.subfigures(1, 2, width_ratios=[2.6, 1])
    left, right = halves
    pairs = left.subplots(2 * rows, 1, sharex=True, height_ratios=[3, 1] * rows, squeeze=False)
    tops, bottoms = list(pairs[0::2, 0]), list(pairs[1::2, 0])
    drawn: set[str] = set()
    for (name, result), top, bottom in zip(results.items(), tops, bottoms, strict=True):
        drawn |= set(draw_occupancy(top, result.recording, window, 0))
        draw_queue(bottom, result.recording, window, 0 if result.recording.replicas > 1 else None)
        style.title(top, name, _figures(result.summary))
        style.label(top, y="seats")
        style.label(bottom, y="queue")
    for axes in (tops, bottoms):
        highest = max(one.get_ylim()[1] for one in axes)
        for one in axes:
            one.set_ylim(0, highest)
    style.label(bottoms[-1], x="simulated time (s)")
    legend(figure, drawn, "outside upper left")

    above, below = right.subplots(2, 1)
    draw_itl(above, list(recordings.items()))
    style.label(above, x="")
    draw_cdf(
        below,
        [
            (name, ttft_s(one.outcome)[one.outcome.status == FINISHED])
            for name, one in recordings.items()
        ],
    )
    style.title(below, "Time to first token")
    curve_names(right, "outside upper left", below)
    return figure


def _figures(summary: dict[str, Any]) -> str:
    parts = [
        f"{name} p99 {readable_s(summary[key] / 1e3)}"
        for name, key in (("TTFT", "p99_ttft_ms"), ("ITL", "p99_itl_ms"))
        if summary[key] == summary[key]  # not NaN: something was measured
    ]
    parts.append(f"{summary['output_throughput']:,.0f} tok/s")
    if summary["decode_stall_share"] >= 0.005:
        parts.append(f"stalled {summary['decode_stall_share']:.0%}")
    if summary["tail_bubble_share"] > 0:
        parts.append(f"bubble {summary['tail_bubble_share']:.0%}")
    if summary["padding_share"] > 0:
        parts.append(f"padding {summary['padding_share']:.0%}")
    return " · ".join(parts)
