"""Batch occupancy step by step, and load over the whole run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from simulator.metrics.latency import e2el_s
from simulator.metrics.leases import count_over_time, paid, serving
from simulator.recording import FINISHED, Recording
from simulator.report.plots import style
from simulator.report.plots.series import (
    LAYER_LABELS,
    LAYERS,
    Window,
    averages,
    occupancy,
    stairs,
    steps_within,
    telling_window,
    waiting,
    waiting_at,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator.simulation import Result

COLOURS = {
    "decode": style.DECODE,
    "prefill": style.PREFILL,
    "padding": style.PADDING,
    "stalled": style.STALLED,
    "bubble": style.BUBBLE,
}
MOST_STEPS = 2000  # drawn one by one; more are averaged into columns a pixel or two wide
COLUMNS = 600


def plot_timeline(result: Result, window: Window | None = None, replica: int = 0) -> Figure:
    """Who holds the seats of a replica, step by step, and the queue below.

    Parameters
    ----------
    result : of `simulator.simulate`.
    window : (from, to) in simulated seconds; by default the stretch in which most is lost
        to stalls and locked slots, long enough for four median requests.
    replica : which one.
    """
    recording = result.recording
    if window is None:
        window = default_window([recording])
    one_of = f", {recording.pool_of(replica)[0]}replica {replica}" if recording.replicas > 1 else ""
    _, recording, replica = recording.pool_of(replica)
    figure = style.new_figure(10, 4.2, header=0.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    drawn = draw_occupancy(top, recording, window, replica)
    draw_queue(bottom, recording, window, replica if recording.replicas > 1 else None)
    style.title(top, f"Seats by what their holders do{one_of}")
    style.label(top, y="requests")
    style.label(bottom, x="simulated time (s)", y="waiting")
    legend(figure, drawn, "upper left")
    return figure


def plot_load(result: Result) -> Figure:
    """Running and waiting requests and KV cache usage over the whole run, all replicas; and
    their number, where that changes."""
    recording = result.recording
    edges = np.linspace(0.0, max(recording.end_s, 1e-9), COLUMNS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    steps = recording.steps
    means = averages(
        steps,
        edges,
        {
            "running": steps.running,
            "kv": steps.kv_blocks,
        },
    )
    usable = max(int(recording.kv_blocks_of_replicas().sum()), 1)
    scaled = recording.leases is not None
    figure = style.new_figure(10, 5.2 if scaled else 4.2)
    top, *more, bottom = figure.subplots(
        2 + scaled, 1, sharex=True, height_ratios=[2, 1, 1] if scaled else [2, 1]
    )
    for axes in more:
        _draw_replicas(axes, recording)
    top.plot(middle, means["running"], color=style.DECODE, linewidth=1.4, label="running")
    top.plot(
        middle, waiting_at(recording, middle), color=style.STALLED, linewidth=1.2, label="waiting"
    )
    bottom.fill_between(middle, means["kv"] / usable * 100, color=style.KV, alpha=0.8, linewidth=0)
    bottom.set_ylim(0, 100)
    top.set_ylim(bottom=0)
    top.set_xlim(0, edges[-1])
    for axes in (top, *more, bottom):
        style.quiet(axes)
    style.title(top, "Load over the run")
    style.label(top, y="requests")
    style.label(bottom, x="simulated time (s)", y="KV blocks\nheld (%)")
    top.legend(loc="upper right", frameon=False, fontsize=style.FONT_SIZE, labelcolor=style.INK,
               ncols=2)  # fmt: skip
    return figure


def _draw_replicas(axes: Axes, recording: Recording) -> None:
    """Replicas that are paid for, and those of them that take requests."""
    for spans, colour, label in (
        (paid(recording), style.BUBBLE, "paid for"),
        (serving(recording), style.DECODE, "serving"),
    ):
        axes.fill_between(
            *count_over_time(spans), step="post", color=colour, linewidth=0, label=label
        )
    axes.set_ylim(bottom=0)
    style.label(axes, y="replicas")
    axes.legend(loc="upper right", frameon=False, fontsize=style.FONT_SIZE, labelcolor=style.INK,
                ncols=2)  # fmt: skip


def default_window(recordings: Sequence[Recording]) -> Window:
    """The stretch that says most: where most time is lost, of `window_length_s`."""
    return telling_window(recordings, window_length_s(recordings))


def window_length_s(recordings: Sequence[Recording]) -> float:
    """Long enough for four typical requests of the fastest run, or a static batch or two."""
    latency, residence = [], []
    for recording in recordings:
        outcome = recording.outcome
        done = outcome.status == FINISHED
        if done.any():
            latency.append(float(np.median(e2el_s(outcome)[done])))
            residence.append(
                float(np.quantile((outcome.finished_s - outcome.admitted_s)[done], 0.9))
            )
    if not latency:
        return max(max(recording.end_s for recording in recordings), 1e-9)
    typical = min(latency)
    return min(max(4 * typical, min(2 * max(residence), 12 * typical)), 60.0)


def draw_occupancy(axes: Axes, recording: Recording, window: Window, replica: int) -> list[str]:
    """Stacked seats by step; returns the names of the layers that show anything."""
    corners = stairs(recording, window, replica)
    if len(corners.time_s) <= 4 * MOST_STEPS:
        time_s, layers = corners.time_s, corners.layers
    else:
        edges = np.linspace(*window, COLUMNS * 2 + 1)
        inside = steps_within(recording.steps, window, replica)
        means = averages(inside, edges, occupancy(inside))
        time_s = np.column_stack((edges[:-1], edges[1:])).ravel()
        layers = {name: np.repeat(mean, 2) for name, mean in means.items()}
    drawn = [name for name in LAYERS if layers[name].any()]
    floor = np.zeros(len(time_s))
    for name in drawn:
        ceiling = floor + layers[name]
        axes.fill_between(
            time_s, floor, ceiling, color=COLOURS[name], linewidth=0, antialiased=False
        )
        floor = ceiling
    axes.set_xlim(window)
    axes.set_ylim(0, max(float(floor.max(initial=0.0)) * 1.05, 1.0))
    style.quiet(axes)
    return drawn


def draw_queue(axes: Axes, recording: Recording, window: Window, replica: int | None) -> None:
    """Requests waiting for their first step, as a filled line."""
    time_s, count = waiting(recording, window, replica)
    axes.fill_between(time_s, count, step="post", color=style.FAINT, alpha=0.35, linewidth=0)
    axes.step(time_s, count, where="post", color=style.INK, linewidth=0.9)
    axes.set_ylim(0, max(float(count.max()) * 1.15, 1.0))
    axes.locator_params(axis="y", nbins=3, integer=True)
    style.quiet(axes)


def legend(
    figure: Figure, drawn: Collection[str], where: Literal["upper left", "outside upper left"]
) -> None:
    """One row of colour patches above the plots, for the layers that occur."""
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=COLOURS[name], label=LAYER_LABELS[name]) for name in LAYERS if name in drawn
    ]
    if patches:
        figure.legend(
            handles=patches,
            loc=where,
            ncols=len(patches),
            frameon=False,
            fontsize=style.FONT_SIZE,
            labelcolor=style.INK,
            handlelength=1.2,
            columnspacing=1.6,
            borderaxespad=0.3,
        )
