"""How far a run is from its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.backlog import OVERLOADED, backlog
from simulator.metrics.latency import Rows, population
from simulator.metrics.quantiles import weighted_mean, weighted_quantiles
from simulator.metrics.slo import ROUNDING, SECONDS
from simulator.recording import FINISHED, QUEUE_FULL, UNFINISHED, Recording

if TYPE_CHECKING:
    from simulator.scenario import Scenario
    from simulator.scenario.slo import SloTarget

# Logarithms of value / limit.
HOPELESS = math.log(1e4)  # nothing to measure, or far beyond
OVERLOAD = math.log(2.0)  # at least, when the backlog grows: the value only grows with the run


@dataclass(frozen=True, slots=True)
class Margin:
    """A run against the objective that it is worst at.

    Attributes
    ----------
    excess : log(value / limit) of that objective; at most 0 when all are met.  A run whose
        backlog grows is above 0 whatever it measured.
    objective : its key, after the class's name where it is a class's.
    value_ms, limit_ms : what was measured, and the limit.
    state : STABLE, BACKLOGGED or OVERLOADED.
    e2el_s : median end-to-end latency of what completed; NaN for nothing.
    """

    excess: float
    objective: str
    value_ms: float
    limit_ms: float
    state: str
    e2el_s: float

    @property
    def met(self) -> bool:
        """Whether every objective is met by a system that keeps up."""
        return self.excess <= 0


def objectives(scenario: Scenario) -> list[tuple[str | None, SloTarget]]:
    """Limits on percentiles and means, each with the class it is for (None: all)."""
    found: list[tuple[str | None, SloTarget]] = [(None, target) for target in scenario.slo.targets]
    for spec in scenario.workload.classes:
        found += [(spec.name, target) for target in spec.slo.targets]
    return found


def margin(recording: Recording, scenario: Scenario, skip: int = 0) -> Margin:
    """Judge a run by the objectives of its scenario.

    Unlike a report, this counts what did not complete: a request that was refused because
    the queue was full never got an answer, and one that is unfinished at the horizon has
    taken at least the time since it arrived.

    Parameters
    ----------
    skip : requests to leave out at the start, in order of arrival.
    """
    who = population(recording, scenario.cut_s)
    counted = who.counted.copy()
    counted[:skip] = False
    worst = -math.inf
    about, about_ms = objectives(scenario)[0], math.nan
    for name, target in objectives(scenario):
        rows = counted
        if name is not None:
            rows = rows & (
                recording.requests.class_id == recording.requests.class_names.index(name)
            )
        value_s = _statistic_s(target, recording, rows)
        excess = HOPELESS
        if value_s == 0:
            excess = -HOPELESS
        elif math.isfinite(value_s):
            limit_s = target.limit_ms / 1e3 * (1.0 + ROUNDING)
            excess = max(-HOPELESS, min(HOPELESS, math.log(value_s / limit_s)))
        if excess > worst:
            worst, about, about_ms = excess, (name, target), value_s * 1e3
    name, target = about
    state = backlog(recording, who).state
    if state == OVERLOADED:
        worst = max(worst, OVERLOAD)
    done = counted & (recording.outcome.status == FINISHED)
    e2el_s = SECONDS["e2el"](recording.outcome)[done]
    return Margin(
        worst,
        target.key if name is None else f"{name}: {target.key}",
        about_ms,
        target.limit_ms,
        state,
        float(np.median(e2el_s)) if len(e2el_s) else math.nan,
    )


def _statistic_s(target: SloTarget, recording: Recording, rows: Rows) -> float:
    if target.metric == "itl":
        gaps = recording.gaps
        if target.percentile is None:
            return weighted_mean(gaps.gap_s, gaps.count)
        return float(weighted_quantiles(gaps.gap_s, gaps.count, [target.percentile / 100])[0])
    seconds = _experienced_s(target.metric, recording)[rows]
    seconds = seconds[~np.isnan(seconds)]
    if not len(seconds):
        return math.nan
    if target.percentile is None:
        return float(seconds.mean())
    with np.errstate(invalid="ignore"):  # between two infinite ones
        return float(np.quantile(seconds, target.percentile / 100))


def _experienced_s(metric: str, recording: Recording) -> NDArray[np.float64]:
    """A latency of each request, with what did not complete at what it took or will take."""
    outcome = recording.outcome
    seconds = SECONDS[metric](outcome)
    open_ended = (outcome.status == UNFINISHED) & np.isnan(seconds)
    if metric != "tpot":  # which an unfinished request does not tell
        since = np.where(np.isnan(outcome.arrival_s), recording.end_s, outcome.arrival_s)
        seconds = np.where(open_ended, recording.end_s - since, seconds)
    return np.where(outcome.reject_reason == QUEUE_FULL, np.inf, seconds)
