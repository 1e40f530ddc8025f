"""The recording as tables: columns for Parquet, data frames for notebooks."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.attribution import PARTS, Attribution
from simulator.metrics.latency import e2el_s, queue_s, tpot_s, ttft_s
from simulator.metrics.memory import reserved_tokens
from simulator.recording import REJECT_REASONS, STATUS_NAMES, Outcome, Recording

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[Any] | tuple[NDArray[Any], tuple[str, ...]]  # (codes, names) of a category


def request_columns(
    recording: Recording, attribution: Attribution | None = None
) -> dict[str, Column]:
    """Columns of requests.parquet, in the order of the glossary."""
    requests, outcome = recording.requests, recording.outcome
    columns: dict[str, Column] = {"request": np.arange(len(requests))}
    if requests.ids is not None:
        columns["id"] = np.array(requests.ids, dtype=object)
    columns |= {
        "class": (requests.class_id, requests.class_names),
        "arrival_s": outcome.arrival_s,
        "prompt_tokens": requests.prompt_tokens,
        "output_tokens": requests.output_tokens,
        "max_tokens": requests.max_tokens,
        "priority": requests.priority,
        **({"adapter": requests.adapter} if len(requests.adapter) else {}),
        "status": (outcome.status, STATUS_NAMES),
        "reject_reason": (outcome.reject_reason, REJECT_REASONS),
    }
    rest = [f.name for f in fields(Outcome) if f.name not in columns]
    columns |= {name: getattr(outcome, name) for name in rest}
    if recording.handovers is not None:
        moved = recording.handovers
        columns |= {
            "decode_replica": moved.replica,
            "prefilled_s": moved.prefilled_s,
            "kv_claimed_s": moved.claimed_s,
            "kv_arrived_s": moved.arrived_s,
            "kv_pulled_blocks": moved.pulled_blocks,
        }
    for name, seconds in (("queue", queue_s), ("ttft", ttft_s), ("tpot", tpot_s), ("e2el", e2el_s)):
        columns[f"{name}_ms"] = seconds(outcome) * 1e3
    if attribution is not None:
        for name, part_s in zip(PARTS, attribution.e2el_s.T, strict=True):
            columns[f"{name}_part_ms"] = part_s * 1e3
    return columns


def step_columns(recording: Recording) -> dict[str, Column]:
    """Columns of steps.parquet, in the order of the glossary."""
    columns: dict[str, Column] = {
        f.name: getattr(recording.steps, f.name) for f in fields(recording.steps)
    }
    if recording.handovers is not None:
        first = recording.handovers.prefill.replicas
        columns["pool"] = (recording.steps.replica >= first, ("prefill", "decode"))
    reserved = reserved_tokens(recording)
    return columns if reserved is None else columns | {"kv_reserved_tokens": reserved}


def requests_frame(recording: Recording, attribution: Attribution | None = None) -> pd.DataFrame:
    """One row per request; `simulator.metrics.glossary.REQUEST_COLUMNS` explains each column."""
    return _frame(request_columns(recording, attribution))


def steps_frame(recording: Recording) -> pd.DataFrame:
    """One row per step; `simulator.metrics.glossary.STEP_COLUMNS` explains each column."""
    return _frame(step_columns(recording))


def _frame(columns: dict[str, Column]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(column[0].astype(np.int64), pd.Index(column[1]))
            if isinstance(column, tuple)
            else column
            for name, column in columns.items()
        }
    )
