"""What the requests that miss an objective lost their time to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics.attribution import Attribution, parts_of, shares
from simulator.metrics.latency import Rows
from simulator.metrics.slo import SECONDS, meets
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Scenario
    from simulator.scenario.slo import SloTarget


def attribution_summary(
    attribution: Attribution, scenario: Scenario, recording: Recording, completed: Rows
) -> dict[str, Any]:
    """Shares of latency for summary.json: of all completed requests, and by objective.

    Of an objective they are of the requests beyond its limit; where none is, of the slowest
    that it is about: at or beyond its percentile.  Inter-token gaps are pooled and tell no
    request: there all count.
    """
    names = recording.requests.class_names
    slo = [
        _of_target(target, None, attribution, recording, completed)
        for target in scenario.slo.targets
    ]
    for spec in scenario.workload.classes:
        if spec.name in names:
            members = completed & (recording.requests.class_id == names.index(spec.name))
            slo += [
                _of_target(target, spec.name, attribution, recording, members)
                for target in spec.slo.targets
            ]
    return {
        "ttft": shares(attribution.ttft_s, completed),
        "decode": shares(attribution.decode_s, completed),
        "e2el": shares(attribution.e2el_s, completed),
        "slo": slo,
    }


def _of_target(
    target: SloTarget,
    class_name: str | None,
    attribution: Attribution,
    recording: Recording,
    rows: Rows,
) -> dict[str, Any]:
    about, beyond = rows, False
    if target.metric in SECONDS:
        seconds = SECONDS[target.metric](recording.outcome)
        known = rows & ~np.isnan(seconds)
        about = known & ~meets(seconds, target.limit_ms / 1e3)
        beyond = bool(about.any())
        if not beyond and known.any():
            q = 0.0 if target.percentile is None else target.percentile / 100
            about = known & (seconds >= np.quantile(seconds[known], q))
    return {
        "class_name": class_name,
        "metric": target.key,
        "beyond": beyond,
        "requests": int(about.sum()),
        "shares": shares(parts_of(attribution, target.metric), about),
    }
