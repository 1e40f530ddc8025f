"""Service level objectives: verdicts over the run, and goodput request by request."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import InputError
from simulator.metrics.latency import Floats, Rows, e2el_s, queue_s, tpot_s, ttft_s
from simulator.metrics.quantiles import weighted_mean, weighted_quantiles
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Scenario
    from simulator.scenario.slo import SloSpec, SloTarget

ROUNDING = 1e-9  # relative; sums of step times carry errors of some 1e-12
SECONDS = {"ttft": ttft_s, "tpot": tpot_s, "e2el": e2el_s, "queue": queue_s}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One objective and what the run measured for it.

    `value_ms` is NaN, and the objective missed, when no request completed (or, for TPOT
    and ITL, none with a second token).
    """

    class_name: str | None  # None: all requests
    metric: str
    limit_ms: float
    value_ms: float
    met: bool

    def as_dict(self) -> dict[str, Any]:
        """The verdict for summary.json."""
        return asdict(self)


def refuse_unmeasurable(scenario: Scenario) -> None:
    """Refuse an inter-token SLO of one class: the gaps are pooled over all requests.

    Raises
    ------
    InputError : naming the class and what to ask for instead.
    """
    for spec in scenario.workload.classes:
        for target in spec.slo.targets:
            if target.metric == "itl":
                raise InputError(
                    f"workload.classes: {spec.name} has the limit {target.key}, but inter-token "
                    "gaps are recorded over all classes together; limit tpot for the class, or "
                    "itl for the whole scenario."
                )


def meets(value: Any, limit: Any) -> Any:
    """Whether a value, or each of several, is within a limit; rounding errors are no miss."""
    return value <= limit * (1.0 + ROUNDING)


def verdicts(
    slo: SloSpec, recording: Recording, completed: Rows, class_name: str | None = None
) -> list[Verdict]:
    """Compare each limit on a percentile or mean with the completed requests."""
    out = []
    for target in slo.targets:
        value = _statistic_ms(target, recording, completed)
        out.append(
            Verdict(class_name, target.key, target.limit_ms, value, meets(value, target.limit_ms))
        )
    return out


def _statistic_ms(target: SloTarget, recording: Recording, completed: Rows) -> float:
    if target.metric == "itl":
        gaps = recording.gaps
        if target.percentile is None:
            return weighted_mean(gaps.gap_s, gaps.count) * 1e3
        return float(weighted_quantiles(gaps.gap_s, gaps.count, [target.percentile / 100])[0]) * 1e3
    seconds = SECONDS[target.metric](recording.outcome)[completed]
    seconds = seconds[~np.isnan(seconds)]
    if not len(seconds):
        return float("nan")
    if target.percentile is None:
        return float(seconds.mean()) * 1e3
    return float(np.quantile(seconds, target.percentile / 100)) * 1e3


def goodput_limits_s(slo: SloSpec) -> dict[str, float]:
    """Limits that one request must meet to be good, by metric, in seconds.

    `ttft_ms`, `tpot_ms` and `e2el_ms` where given.  Where none is, the percentile limits
    on the same metrics are read request by request (the loosest, where a metric has
    several): "p99 TTFT below 500 ms" asks each request for 500 ms, and grants one in a
    hundred a miss.
    """
    if slo.goodput:
        return {limit.metric: limit.limit_ms / 1e3 for limit in slo.goodput}
    found: dict[str, float] = {}
    for target in slo.targets:
        if target.percentile is not None and target.metric in ("ttft", "tpot", "e2el"):
            found[target.metric] = max(found.get(target.metric, 0.0), target.limit_ms / 1e3)
    return found


def good_requests(scenario: Scenario, recording: Recording, completed: Rows) -> Rows | None:
    """Completed requests that meet every limit of the scenario and of their class.

    A class's own limit on a metric stands in place of the scenario's.  A one-token
    request has no TPOT and meets any limit on it.

    Returns
    -------
    (n,) bool, or None where no limit is set for anybody.
    """
    overall = goodput_limits_s(scenario.slo)
    names = recording.requests.class_names
    own = {spec.name: goodput_limits_s(spec.slo) for spec in scenario.workload.classes}
    if not overall and not any(own.values()):
        return None
    good = completed.copy()
    for metric in ("ttft", "tpot", "e2el"):
        limit = np.array(
            [own.get(name, {}).get(metric, overall.get(metric, np.inf)) for name in names]
        )
        if np.isinf(limit).all():
            continue
        seconds: Floats = SECONDS[metric](recording.outcome)
        within = meets(seconds, limit[recording.requests.class_id])
        good &= within | np.isnan(seconds)  # no TPOT, no miss
    return good
