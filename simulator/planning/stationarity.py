"""How much of a run's beginning to leave out, so that an empty start does not flatter it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simulator.metrics.latency import e2el_s
from simulator.recording import FINISHED, Recording

BATCH = 5


def warm_up_s(recording: Recording) -> float:
    """When the first request arrives that is not warm-up: by `mser5`, of the end-to-end
    latencies of what finished; 0 where nothing is cut."""
    outcome = recording.outcome
    done = np.flatnonzero(outcome.status == FINISHED)
    done = done[np.argsort(outcome.arrival_s[done], kind="stable")]
    cut = mser5(e2el_s(outcome)[done])
    return float(outcome.arrival_s[done[cut]]) if cut else 0.0


def mser5(series: ArrayLike) -> int:
    """Observations to leave out at the start of a series, by the rule MSER-5.

    The series is averaged in batches of five.  Of all cuts in its first half, the rule takes
    the one after which the mean is known best: the least ``variance / length`` of what is
    left.  A cut further back would judge the series by a tail too short to tell.

    Source: K. P. White Jr., M. J. Cobb, S. C. Spratt, "A comparison of five steady-state
    truncation heuristics for simulation", Winter Simulation Conference 2000.

    Parameters
    ----------
    series : (n,) in order of time, such as the latency of each request by arrival.

    Returns
    -------
    Number of leading observations to cut, a multiple of five and at most n / 2.
    """
    values = np.asarray(series, np.float64)
    batches = len(values) // BATCH
    if batches < 2:
        return 0
    means = values[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    # Sums over the batches from each cut to the end, from the back.
    left = np.arange(batches, 0, -1)
    deviation = means - means[-1]  # exactly 0 throughout a constant end
    total = np.cumsum(deviation[::-1])[::-1]
    squares = np.cumsum((deviation**2)[::-1])[::-1]
    spread = np.maximum(squares - total**2 / left, 0.0) / left**2
    return BATCH * int(np.argmin(spread[: batches // 2 + 1]))
