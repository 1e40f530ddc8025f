"""The steps of a run as things to draw: layers of occupancy, stairs, time averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.recording import REJECTED, Recording, Steps

Floats = NDArray[np.float64]
Window = tuple[float, float]

LAYERS = ("decode", "prefill", "padding", "stalled", "bubble")
LAYER_LABELS = {
    "decode": "decode",
    "prefill": "prefill",
    "padding": "prefill padding",
    "stalled": "running, but stalled",
    "bubble": "finished, slot locked",
}


def occupancy(steps: Steps) -> dict[str, Floats]:
    """Seats of each step by what their holders do; the layers add up to the seats taken.

    Padding is counted in rows: the share of a padded prefill's tokens that is padding.
    """
    prefill = steps.prefill_seqs.astype(np.float64)
    computed = steps.prefill_tokens + steps.padding_tokens.astype(np.float64)
    padding = prefill * np.divide(
        steps.padding_tokens, computed, out=np.zeros_like(computed), where=computed > 0
    )
    served = steps.decode_seqs + steps.prefill_seqs + steps.bubble_seqs
    return {
        "decode": steps.decode_seqs.astype(np.float64),
        "prefill": prefill - padding,
        "padding": padding,
        "stalled": np.maximum(steps.running - served, 0).astype(np.float64),
        "bubble": steps.bubble_seqs.astype(np.float64),
    }


@dataclass(frozen=True, eq=False, slots=True)
class Stairs:
    """Corners of the layers' outlines over time, with gaps between steps at 0.

    Attributes
    ----------
    time_s : (4n,) corners: each step goes up at its start and down at its end.
    layers : (4n,) height of each layer at the corners.
    """

    time_s: Floats
    layers: dict[str, Floats]


def stairs(recording: Recording, window: Window, replica: int = 0) -> Stairs:
    """Exact outlines of the steps of one replica that touch `window`."""
    steps = recording.steps
    rows = (steps.replica == replica) & (steps.end_s > window[0]) & (steps.start_s < window[1])
    start, end = steps.start_s[rows], steps.end_s[rows]
    time_s = np.column_stack((start, start, end, end)).ravel()
    layers = {}
    for name, height in occupancy(steps).items():
        level = height[rows]
        flat = np.zeros_like(level)
        layers[name] = np.column_stack((flat, level, level, flat)).ravel()
    return Stairs(time_s, layers)


def averages(recording: Recording, edges: Floats, values: dict[str, Floats]) -> dict[str, Floats]:
    """Time averages of step columns between `edges`, summed over the replicas.

    Parameters
    ----------
    edges : (k + 1,) increasing times in seconds.
    values : name -> (number of steps,) value that holds during each step; 0 between steps.

    Returns
    -------
    name -> (k,) averages, exact: differences of the cumulative integral.
    """
    steps = recording.steps
    totals = {name: np.zeros(len(edges)) for name in values}
    for replica in range(recording.replicas):
        rows = steps.replica == replica if recording.replicas > 1 else slice(None)
        start, end = steps.start_s[rows], steps.end_s[rows]
        if not len(start):
            continue
        corners = np.column_stack((start, end)).ravel()
        for name, value in values.items():
            area = np.cumsum(value[rows] * (end - start))
            before = np.concatenate(([0.0], area[:-1]))
            totals[name] += np.interp(edges, corners, np.column_stack((before, area)).ravel())
    return {name: np.diff(total) / np.diff(edges) for name, total in totals.items()}


def waiting(
    recording: Recording, window: Window, replica: int | None = None
) -> tuple[Floats, Floats]:
    """Requests that have arrived and were never scheduled yet, as steps over time.

    Unlike the queue in the step records this moves within a step too, so that a long step
    shows who piles up behind it.

    Returns
    -------
    (time_s, count) : times at which the count changes, and the count from then on; the
        first time is the window's start.
    """
    outcome = recording.outcome
    rows = outcome.status != REJECTED
    if replica is not None:
        rows &= outcome.replica == replica
    arrived = np.sort(outcome.arrival_s[rows & ~np.isnan(outcome.arrival_s)])
    admitted = np.sort(outcome.admitted_s[rows & ~np.isnan(outcome.admitted_s)])
    moments = np.concatenate((arrived, admitted))
    moments = np.unique(moments[(moments > window[0]) & (moments < window[1])])
    moments = np.concatenate(([window[0]], moments, [window[1]]))
    count = np.searchsorted(arrived, moments, side="right") - np.searchsorted(
        admitted, moments, side="right"
    )
    return moments, count.astype(np.float64)


def telling_window(recordings: Sequence[Recording], length_s: float) -> Window:
    """The stretch of `length_s`, while requests arrive, in which most is lost.

    Lost are seats that are stalled, or locked by a finished row of a static batch; each
    run's losses count relative to its own mean.  The middle where nothing is lost.
    """
    last = max(float(np.nanmax(r.outcome.arrival_s, initial=0.0)) for r in recordings)
    if last <= length_s:
        return (0.0, max(length_s, 1e-9))
    edges = np.linspace(0.0, last, min(int(4 * last / length_s), 100_000) + 1)
    width = min(round(length_s / (edges[1] - edges[0])), len(edges) - 1)
    score = np.zeros(len(edges) - width)
    for recording in recordings:
        layers = occupancy(recording.steps)
        lost = averages(recording, edges, {"lost": layers["stalled"] + layers["bubble"]})["lost"]
        if lost.any():
            score += np.convolve(lost / lost.mean(), np.ones(width), mode="valid")
    best = int(score.argmax()) if score.any() else len(score) // 2
    return (float(edges[best]), float(edges[best]) + length_s)


def ccdf(values: Floats, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Share of a weighted sample above each of its values: (sorted values, shares)."""
    order = np.argsort(values)
    cumulative = np.cumsum(counts[order])
    total = cumulative[-1] if len(cumulative) else 0
    return values[order], 1.0 - cumulative / max(int(total), 1)


def thin(x: Floats, y: Floats, points: int = 2000) -> tuple[Floats, Floats]:
    """At most `points` points of a monotone curve, evenly spread, both ends kept.

    The ends matter most in tails, so half of the points are the last ones.
    """
    if len(x) <= points:
        return x, y
    even = np.linspace(0, len(x) - 1, points // 2).astype(np.int64)
    keep = np.unique(np.concatenate((even, np.arange(len(x) - points // 2, len(x)))))
    return x[keep], y[keep]
