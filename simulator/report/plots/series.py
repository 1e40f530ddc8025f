"""The steps of a run as things to draw: layers of occupancy, stairs, time averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.recording import REJECTED, Recording, Steps

Floats = NDArray[np.float64]
Window = tuple[float, float]

SORTABLE = 200_000
BINS = 20_000

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


def steps_within(steps: Steps, window: Window, replica: int) -> Steps:
    """The steps of a replica that touch `window`."""
    rows = (steps.replica == replica) & (steps.end_s > window[0]) & (steps.start_s < window[1])
    return Steps(**{f.name: getattr(steps, f.name)[rows] for f in fields(steps)})


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
    steps = steps_within(recording.steps, window, replica)
    start, end = steps.start_s, steps.end_s
    time_s = np.column_stack((start, start, end, end)).ravel()
    layers = {}
    for name, level in occupancy(steps).items():
        flat = np.zeros_like(level)
        layers[name] = np.column_stack((flat, level, level, flat)).ravel()
    return Stairs(time_s, layers)


def averages(steps: Steps, edges: Floats, values: dict[str, NDArray[Any]]) -> dict[str, Floats]:
    """Time averages of step columns between `edges`, summed over the replicas.

    Parameters
    ----------
    steps : in order of their start on each replica.
    edges : (k + 1,) increasing times in seconds.
    values : name -> (number of steps,) value that holds during each step; 0 between steps.

    Returns
    -------
    name -> (k,) averages, exact: differences of the cumulative integral.
    """
    totals = {name: np.zeros(len(edges)) for name in values}
    for replica in range(int(steps.replica.max(initial=0)) + 1):
        here = steps.replica == replica
        rows = slice(None) if here.all() else here
        start, end = steps.start_s[rows], steps.end_s[rows]
        if not len(start):
            continue
        # The step that has begun by each edge, and how much of it lies before the edge.
        current = np.searchsorted(start, edges, side="right") - 1
        begun = current >= 0
        current = current[begun]
        partly = np.minimum(edges[begun], end[current]) - start[current]
        length = end - start
        for name, value in values.items():
            held = value[rows]
            area = held * length
            np.cumsum(area, out=area)
            whole = area[current] - held[current] * length[current]
            totals[name][begun] += whole + held[current] * partly
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
        first time is the window's start, the last its end.
    """
    arrived, admitted = _comings_and_goings(recording, replica)
    moments = [times[(times > window[0]) & (times < window[1])] for times in (arrived, admitted)]
    time_s = np.concatenate(([window[0]], np.unique(np.concatenate(moments)), [window[1]]))
    return time_s, _between(arrived, admitted, time_s)


def waiting_at(recording: Recording, time_s: Floats) -> Floats:
    """Requests of all replicas that have arrived and were never scheduled, at given times."""
    return _between(*_comings_and_goings(recording, None), time_s)


def _comings_and_goings(recording: Recording, replica: int | None) -> tuple[Floats, Floats]:
    outcome = recording.outcome
    rows = outcome.status != REJECTED
    if replica is not None:
        rows &= outcome.replica == replica
    arrived, admitted = outcome.arrival_s[rows], outcome.admitted_s[rows]
    return np.sort(arrived[~np.isnan(arrived)]), np.sort(admitted[~np.isnan(admitted)])


def _between(arrived: Floats, admitted: Floats, time_s: Floats) -> Floats:
    in_front = np.searchsorted(arrived, time_s, side="right")
    return np.asarray(in_front - np.searchsorted(admitted, time_s, side="right"), np.float64)


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
        steps = recording.steps
        idle = steps.running - steps.decode_seqs - steps.prefill_seqs  # bubbles included
        lost = averages(steps, edges, {"lost": idle})["lost"]
        if lost.any():
            score += np.convolve(lost / lost.mean(), np.ones(width), mode="valid")
    best = int(score.argmax()) if score.any() else len(score) // 2
    return (float(edges[best]), float(edges[best]) + length_s)


def ccdf(values: Floats, counts: NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
    """Share of a weighted sample above each of its values: (sorted values, shares).

    A large sample of positive values is first gathered into bins finer than any plot.
    """
    if len(values) > SORTABLE:
        logs = np.log(values)
        weights, edges = np.histogram(logs, bins=BINS, weights=counts.astype(np.float64))
        values, counts = np.exp(edges[1:]), weights.astype(np.int64)
        values, counts = values[counts > 0], counts[counts > 0]
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
