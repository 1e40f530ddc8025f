"""Which request has which KV blocks over time, and where all the blocks went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.metrics.memory import reserved_tokens
from simulator.recording import Recording
from simulator.report.plots import style
from simulator.report.plots.series import Window, averages
from simulator.report.plots.timeline import window_length_s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator.simulation import Result

Floats = NDArray[np.float64]

FILLED, RESERVED, ROUNDED = "filled", "reserved, empty", "rounded up"
OUTSIDE = "free, but not in the longest piece"
COLOURS = {
    FILLED: style.DECODE,
    RESERVED: style.PADDING,
    ROUNDED: style.PREFILL,
    OUTSIDE: style.STALLED,
}
COLUMNS = 600
MOST_BARS = 3000  # more are not told apart in 10 inches


def plot_memory_map(result: Result, window: Window | None = None, replica: int = 0) -> Figure:
    """Which request has which KV blocks, and where all the blocks went.

    Above, a bar for each request from its first block to its last: what its tokens fill
    (they are drawn to come evenly between its first and its last), what is reserved for them
    and empty, and what the reservation was rounded up by.  Below, shares of all blocks over
    the same time.

    Parameters
    ----------
    result : of `simulator.simulate`, under a contiguous allocator.
    window : (from, to) in simulated seconds; by default from where the pool first runs out.
    replica : which one.

    Raises
    ------
    InputError
        The allocator is paged: its blocks lie wherever they are free.
    """
    recording = result.recording
    if recording.reservations is None:
        raise InputError(
            "kv_cache.allocator is paged, whose blocks have no place to draw; a memory map needs "
            "contiguous, contiguous_oracle or buddy"
        )
    if window is None:
        window = _from_exhaustion(recording, result.summary["kv_exhausted_s"])
    figure = style.new_figure(10, 5.2, header=0.6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    _draw_bars(top, recording, window, replica)
    _draw_shares(bottom, recording, window, replica)
    one_of = f", replica {replica}" if recording.replicas > 1 else ""
    allocator = result.resolved.scenario.kv_cache.allocator
    style.title(top, f"KV cache by block ({allocator}{one_of})")
    style.label(top, y="block")
    style.label(bottom, x="simulated time (s)", y="blocks (%)")
    _legend(figure)
    return figure


def _from_exhaustion(recording: Recording, exhausted_s: float | None) -> Window:
    length_s = min(window_length_s([recording]), max(recording.end_s, 1e-9))
    start = max(0.0, (exhausted_s or 0.0) - length_s / 4)
    start = max(0.0, min(start, recording.end_s - length_s))
    return start, start + length_s


def _draw_bars(axes: Axes, recording: Recording, window: Window, replica: int) -> None:
    from matplotlib.collections import PolyCollection

    outcome, held = recording.outcome, recording.reservations
    assert held is not None
    until_s = np.where(np.isnan(outcome.finished_s), recording.end_s, outcome.finished_s)
    rows = np.flatnonzero(
        (outcome.replica == replica) & (outcome.admitted_s < window[1]) & (until_s > window[0])
    )[:MOST_BARS]
    start_s, end_s = outcome.admitted_s[rows], until_s[rows]
    first_s = np.where(np.isnan(outcome.first_token_s[rows]), end_s, outcome.first_token_s[rows])
    bottom = held.start_block[rows].astype(np.float64)
    top = bottom + held.blocks[rows]
    prompt = bottom + recording.requests.prompt_tokens[rows] / recording.block_size
    total = prompt + outcome.generated_tokens[rows] / recording.block_size
    meant = bottom + held.tokens[rows] / recording.block_size
    all_of_it = _corners((start_s, bottom), (end_s, bottom), (end_s, top), (start_s, top))
    reserved = _corners((start_s, bottom), (end_s, bottom), (end_s, meant), (start_s, meant))
    filled = _corners(
        (start_s, bottom), (end_s, bottom), (end_s, total), (first_s, prompt), (start_s, bottom)
    )
    for corners, name in ((all_of_it, ROUNDED), (reserved, RESERVED), (filled, FILLED)):
        axes.add_collection(
            PolyCollection(
                list(corners), facecolors=COLOURS[name], edgecolors="white", linewidths=0.3
            )
        )
    axes.set_xlim(window)
    axes.set_ylim(0, recording.usable_kv_blocks)
    style.quiet(axes, grid=None)


def _corners(*points: tuple[Floats, Floats]) -> Floats:
    """(bars, corners, 2) from the times and blocks of each corner."""
    return np.stack([np.column_stack(point) for point in points], axis=1)


def _draw_shares(axes: Axes, recording: Recording, window: Window, replica: int) -> None:
    reserved = reserved_tokens(recording)
    assert reserved is not None
    steps, block_size = recording.steps, recording.block_size
    mine = steps.replica == replica
    edges = np.linspace(*window, COLUMNS + 1)
    free = recording.usable_kv_blocks - steps.kv_blocks
    means = averages(
        steps,
        edges,
        {
            FILLED: mine * steps.kv_tokens / block_size,
            RESERVED: mine * (reserved - steps.kv_tokens) / block_size,
            ROUNDED: mine * (steps.kv_blocks - reserved / block_size),
            OUTSIDE: mine * (free - steps.largest_gap_blocks),
        },
    )
    middle = (edges[1:] + edges[:-1]) / 2
    floor = np.zeros(COLUMNS)
    for name, blocks in means.items():
        ceiling = floor + blocks / recording.usable_kv_blocks * 100
        axes.fill_between(middle, floor, ceiling, color=COLOURS[name], linewidth=0)
        floor = ceiling
    axes.set_ylim(0, 100)
    style.quiet(axes)


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(facecolor=colour, label=name) for name, colour in COLOURS.items()],
        loc="upper left",
        ncols=len(COLOURS),
        frameon=False,
        fontsize=style.FONT_SIZE,
        labelcolor=style.INK,
        handlelength=1.2,
        columnspacing=1.6,
        borderaxespad=0.3,
    )
