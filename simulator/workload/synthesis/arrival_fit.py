"""The arrival process that is most like recorded arrivals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from simulator.scenario.arrivals import ArrivalsSpec
from simulator.workload.arrivals import arrival_times
from simulator.workload.rates import steps
from simulator.workload.requests import Floats
from simulator.workload.streams import Purpose, Streams
from simulator.workload.synthesis.fidelity import cv, gap_and_burst_distance
from simulator.workload.synthesis.mmpp_fit import mmpp_candidates
from simulator.workload.traces.statistics import dispersion

CURVE_STEPS = (24, 96, 288)
LEAST_IN_STEP = 30  # fewer requests would make the curve a copy of the recording
SEEDS = (0, 1, 2)


def fit_arrivals(start_s: Floats) -> tuple[dict[str, Any], str]:
    """A process of the scenario for arrivals at `start_s`, and why it was chosen.

    Candidates are drawn three times each and compared with the recording by
    `gap_and_burst_distance`.  One with more parameters must be nearer by more than two
    samples of one process are apart.
    """
    if start_s[-1] == 0:
        return {"process": "burst"}, "all arrive at once"
    best: tuple[float, dict[str, Any]] | None = None
    tried = []
    noise = _noise(start_s)
    for candidate in _candidates(start_s):
        distance = float(np.mean([_distance(candidate, start_s, seed) for seed in SEEDS]))
        name = candidate["process"]
        if "burst_share" in candidate:
            name += f" in bursts {candidate['burst_share']:.0%} of the time, CV {candidate['cv']:g}"
        if "curve" in candidate:
            name += f" in {len(candidate['curve'])} steps"
        tried.append(f"{name} {distance:.3f}")
        alike = best is not None and {name, best[1]["process"]} == {"gamma", "weibull"}
        if best is None or distance < best[0] - (0.0 if alike else noise):
            best = distance, candidate
    assert best is not None
    return best[1], f"distance of the arrivals: {', '.join(tried)}"


def _noise(start_s: Floats) -> float:
    """About how far apart two samples of one process are.

    A variance of counts in w windows is known to sqrt(2 / w) of it, a distribution
    function from n samples to 1 / sqrt(n) at most.
    """
    windows = np.array([start_s[-1] // float(width) for width in dispersion(start_s)])
    of_counts = float(np.sqrt(2 / windows).mean()) / 2 if len(windows) else 0.0
    return of_counts + 1 / math.sqrt(len(start_s))


def _candidates(start_s: Floats) -> list[dict[str, Any]]:
    n, span_s = len(start_s), float(start_s[-1])
    rate = (n - 1) / span_s
    variation = cv(np.diff(start_s)) or 1.0
    found: list[dict[str, Any]] = [{"process": "poisson", "rate": _round(rate)}]
    for process, least, most in (("gamma", 0.01, 100.0), ("weibull", 0.02, 50.0)):
        if least <= variation <= most:
            found.append({"process": process, "rate": _round(rate), "cv": _round(variation)})
    found += mmpp_candidates(start_s)
    period_s = span_s * n / (n - 1)
    for count in CURVE_STEPS:
        if n / count < LEAST_IN_STEP:
            continue
        width_s = period_s / count
        inside = np.minimum((start_s / width_s).astype(np.int64), count - 1)
        rates = np.bincount(inside, minlength=count) / width_s
        curve = steps(rates, width_s, repeats=True)
        unit_gaps = np.diff([curve.expected(t) for t in start_s.tolist()])
        own = float(np.clip(cv(unit_gaps) or 1.0, 0.01, 100.0))
        own = 1.0 if abs(own - 1) < 3 / np.sqrt(n) else _round(own)
        found.append(
            {
                "process": "diurnal",
                "curve": [_round(r) for r in rates.tolist()],
                "period_s": _round(period_s),
                "cv": own,
            }
        )
    return found


def _distance(candidate: dict[str, Any], start_s: Floats, seed: int) -> float:
    spec: ArrivalsSpec = TypeAdapter(ArrivalsSpec).validate_python(candidate)
    twin_s = arrival_times(
        spec,
        Streams(seed).generator(Purpose.ARRIVALS),
        num_requests=len(start_s),
        duration_s=None,
        episode_random=Streams(seed).generator(Purpose.EPISODES),
    )
    return gap_and_burst_distance(start_s, twin_s - twin_s[0])


def _round(value: float) -> float:
    return float(f"{value:.6g}")
