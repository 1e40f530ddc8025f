"""When requests arrive: point processes on the simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import Floats

if TYPE_CHECKING:
    from simulator.scenario.arrivals import ArrivalsSpec

# 100 million rows of `Requests` take 6 GB.
MOST_REQUESTS = 100_000_000

# Gamma gaps outside are all equal, or all zero but one, to double precision.
CV_RANGE = (1e-6, 1e3)

Gaps = Callable[[int], Floats]


def arrival_times(
    spec: ArrivalsSpec,
    random: np.random.Generator,
    *,
    num_requests: int | None,
    duration_s: float | None,
) -> Floats:
    """Times of arrival of a renewal process that starts at 0.

    Poisson and gamma processes wait one whole gap before the first request; constant
    arrivals come at 0, 1/rate, 2/rate, ...; burst and closed_loop all come at 0 (the
    clients of a closed loop then hold back all but `concurrency` of them).

    Parameters
    ----------
    spec : a process of the scenario, with its rate in requests/s.
    random : the stream of the arrivals.  The gaps it gives do not depend on the rate,
        which only stretches them.
    num_requests, duration_s : stop after so many, or before this moment, whichever is
        first; one of them at least.

    Returns
    -------
    (n,) float64, seconds, not decreasing.
    """
    if spec.process == "burst" or spec.process == "closed_loop":
        if num_requests is None:
            raise InputError(
                f"{spec.process} arrivals do not end with time; give workload.num_requests"
            )
        return np.zeros(_affordable(num_requests))
    rate = spec.rate
    if spec.process == "constant":
        count = num_requests
        if duration_s is not None:
            in_time = _affordable(rate * duration_s + 2)
            count = in_time if count is None else min(count, in_time)
        assert count is not None
        times = np.arange(_affordable(count)) / rate
    else:
        gaps = random.standard_exponential if spec.process == "poisson" else _gamma(spec.cv, random)
        steps = _renewals(gaps, num_requests, rate * duration_s if duration_s else None)
        with np.errstate(over="ignore"):
            times = steps / rate
    if duration_s is not None:
        times = times[: np.searchsorted(times, duration_s, "left")]
    if len(times) and not np.isfinite(times[-1]):
        raise InputError(f"rate: {rate:g} requests/s is too low to reach a second request in time")
    return times


def _gamma(cv: float, random: np.random.Generator) -> Gaps:
    """Gaps with mean 1 and the given coefficient of variation."""
    low, high = CV_RANGE
    if not low <= cv <= high:
        raise InputError(
            f"workload.arrivals.cv is {cv:g}; allowed: {low:g} to {high:g} (1 is Poisson; use "
            "constant for evenly spaced arrivals)"
        )
    shape = cv**-2
    return lambda count: random.standard_gamma(shape, count) / shape


def _renewals(gaps: Gaps, count: int | None, end: float | None) -> Floats:
    """Running sums of `gaps`: the first `count`, or as many as reach `end`."""
    if count is not None:
        return np.cumsum(gaps(_affordable(count)))
    assert end is not None
    chunk = _affordable(end) + int(6 * end**0.5) + 16
    pieces, total, reached = [], 0, 0.0
    while reached < end:
        piece = gaps(chunk)
        piece[0] += reached  # the same sums in the same order as in one piece
        pieces.append(np.cumsum(piece))
        total = _affordable(total + chunk)
        reached = float(pieces[-1][-1])
    return np.concatenate(pieces)


def _affordable(count: float) -> int:
    if count > MOST_REQUESTS:
        raise InputError(
            f"the workload would have {count:,.0f} requests; at most {MOST_REQUESTS:,} fit, "
            "lower num_requests, or rate and duration_s"
        )
    return int(count)
