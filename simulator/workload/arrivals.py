"""When requests arrive: point processes on the simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gamma, lgamma, log1p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError
from simulator.workload.rate_files import read_rates
from simulator.workload.rates import episodes, steps, through
from simulator.workload.requests import Floats

if TYPE_CHECKING:
    from simulator.scenario.arrivals import (
        ArrivalsSpec,
        DiurnalArrivals,
        GammaArrivals,
        MmppArrivals,
        PoissonArrivals,
        ProfileArrivals,
        WeibullArrivals,
    )

# 100 million rows of `Requests` take 6 GB.
MOST_REQUESTS = 100_000_000

# Gamma gaps outside are all equal, or all zero but one, to double precision.
CV_RANGE = (1e-6, 1e3)
WEIBULL_CV_RANGE = (0.01, 100.0)

Gaps = Callable[[int], Floats]


def arrival_times(
    spec: ArrivalsSpec,
    random: np.random.Generator,
    *,
    num_requests: int | None,
    duration_s: float | None,
    episode_random: np.random.Generator | None = None,
    base_dir: Path = Path(),
) -> Floats:
    """Times of arrival of a process that starts at 0.

    Poisson, gamma and Weibull processes wait one whole gap before the first request;
    constant arrivals come at 0, 1/rate, 2/rate, ...; burst and closed_loop all come at 0
    (the clients of a closed loop then hold back all but `concurrency` of them).  Processes
    whose rate changes are a gamma process (Poisson for cv 1) on a clock that runs with it.

    Parameters
    ----------
    spec : a process of the scenario, with its rate in requests/s.
    random : the stream of the arrivals.  The gaps it gives do not depend on the rate,
        which only stretches them.
    num_requests, duration_s : stop after so many, or before this moment, whichever is
        first; one of them at least.
    episode_random : the stream of the bursts of an mmpp process.
    base_dir : folder that a file of rates is relative to.

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
    if spec.process == "constant":
        times = _constant(spec.rate, num_requests, duration_s)
    elif spec.process == "poisson" or spec.process == "gamma" or spec.process == "weibull":
        unit = _renewals(
            _gaps(spec, random), num_requests, spec.rate * duration_s if duration_s else None
        )
        times = unit / spec.rate
    else:
        times = _changing(spec, random, num_requests, duration_s, episode_random, base_dir)
    if duration_s is not None:
        times = times[: np.searchsorted(times, duration_s, "left")]
    if len(times) and not np.isfinite(times[-1]):
        raise InputError(
            f"{spec.process} arrivals: the rate is too low to reach a second request in time"
        )
    return times


def _constant(rate: float, num_requests: int | None, duration_s: float | None) -> Floats:
    count = num_requests
    if duration_s is not None:
        in_time = _affordable(rate * duration_s + 2)
        count = in_time if count is None else min(count, in_time)
    assert count is not None
    return np.arange(_affordable(count)) / rate


def _changing(
    spec: MmppArrivals | DiurnalArrivals | ProfileArrivals,
    random: np.random.Generator,
    num_requests: int | None,
    duration_s: float | None,
    episode_random: np.random.Generator | None,
    base_dir: Path,
) -> Floats:
    """Arrivals at a rate that changes."""
    gaps = random.standard_exponential if spec.cv == 1.0 else _gamma(spec.cv, random)
    if spec.process == "mmpp":
        assert episode_random is not None
        # How far the path must reach; a longer one begins alike.
        needed = None if num_requests is None else _renewals(gaps, num_requests, None)
        if needed is not None:
            expected = float(needed[-1])
        else:
            assert duration_s is not None
            expected = _affordable(spec.rate * spec.burst_factor * duration_s)
        calm, burst, calm_s = spec.states()
        _affordable(2 * expected / (spec.rate * (calm_s + spec.burst_s)))
        curve = episodes(calm, burst, calm_s, spec.burst_s, episode_random, expected=expected)
        if needed is not None:
            return curve.times(needed)
    elif spec.process == "profile":
        curve = through(list(spec.points))
    elif spec.file is not None:
        curve = read_rates(base_dir / spec.file, spec.series)
    else:
        shape = np.array(spec.curve, np.float64)
        curve = steps(shape, spec.period_s / len(shape), repeats=True)
    if spec.process == "diurnal" and spec.rate is not None:
        mean = curve.expected(float(curve.edge_s[-1])) / float(curve.edge_s[-1])
        scale = spec.rate / mean
        curve = replace(curve, first=curve.first * scale, last=curve.last * scale)
    end = None if duration_s is None else curve.expected(duration_s)
    return curve.times(_renewals(gaps, num_requests, end))


def _gaps(
    spec: PoissonArrivals | GammaArrivals | WeibullArrivals, random: np.random.Generator
) -> Gaps:
    if spec.process == "poisson":
        return random.standard_exponential
    return _gamma(spec.cv, random) if spec.process == "gamma" else _weibull(spec.cv, random)


def _weibull(cv: float, random: np.random.Generator) -> Gaps:
    """Weibull gaps with mean 1 and the given coefficient of variation."""
    low, high = WEIBULL_CV_RANGE
    if not low <= cv <= high:
        raise InputError(
            f"workload.arrivals.cv is {cv:g}; allowed for weibull: {low:g} to {high:g}"
        )

    def excess(shape: float) -> float:
        """1 + cv^2 of a Weibull distribution, less what is asked for; falls with the shape."""
        return lgamma(1 + 2 / shape) - 2 * lgamma(1 + 1 / shape) - log1p(cv * cv)

    small, large = 0.05, 200.0
    for _ in range(200):
        middle = (small + large) / 2
        small, large = (middle, large) if excess(middle) > 0 else (small, middle)
    shape = (small + large) / 2
    mean = gamma(1 + 1 / shape)
    return lambda count: random.weibull(shape, count) / mean


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
