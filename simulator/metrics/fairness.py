"""Who waits longest, and whether classes are served alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.fair import INPUT_WEIGHT, OUTPUT_WEIGHT
from simulator.metrics.latency import Population, Rows
from simulator.recording import FINISHED, REJECTED, Recording


def waits_ms(recording: Recording, rows: Rows) -> dict[str, float]:
    """Tail of the waits from arrival to first step, of all `rows` that were not rejected.

    Who still waits when the run ends, and so is in no percentile of completed requests, has
    waited until then: else a starved request would be counted nowhere.
    """
    outcome = recording.outcome
    admitted_s = np.where(np.isnan(outcome.admitted_s), recording.end_s, outcome.admitted_s)
    waits_s = (admitted_s - outcome.arrival_s)[rows & (outcome.status != REJECTED)]
    waits_s = waits_s[~np.isnan(waits_s)]  # a client held it back: it never arrived
    if not len(waits_s):
        return {"p99.9_wait_ms": np.nan, "max_wait_ms": np.nan}
    return {
        "p99.9_wait_ms": float(np.quantile(waits_s, 0.999)) * 1e3,
        "max_wait_ms": float(waits_s.max()) * 1e3,
    }


def service_tokens(recording: Recording, who: Population) -> NDArray[np.int64]:
    """(classes,) service that each class had got while all of them had work: weighted tokens.

    Prompt tokens and twice the output tokens, as the order fair weighs them, of the requests
    that had finished when the first class had no more to come; what is done for the others
    later costs nobody anything.  The end of the run where no class gets that far.
    """
    requests, outcome = recording.requests, recording.outcome
    ended_s = np.where(outcome.status == FINISHED, outcome.finished_s, recording.end_s)
    members = [who.counted & (requests.class_id == k) for k in range(len(requests.class_names))]
    contested_s = min(
        (float(ended_s[rows].max(initial=0.0)) for rows in members if rows.any()),
        default=recording.end_s,
    )
    tokens = INPUT_WEIGHT * requests.prompt_tokens + OUTPUT_WEIGHT * outcome.generated_tokens
    served = (outcome.status == FINISHED) & (outcome.finished_s <= contested_s)
    return np.array([int(tokens[rows & served].sum()) for rows in members])


def jain_index(shares: NDArray[Any]) -> float:
    """(Σ x)² / (n Σ x²): 1 for equal shares, 1/n where one has all.

    Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301 (1984).
    """
    x = np.asarray(shares, np.float64)
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else float("nan")
