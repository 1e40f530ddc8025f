"""Small recordings written out by hand, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from simulator.recording import (
    FINISHED,
    REJECT_REASONS,
    REJECTED,
    UNFINISHED,
    InterTokenGaps,
    Losses,
    Outcome,
    Recording,
    Steps,
)
from simulator.scenario import Resolved, Scenario, resolve
from simulator.workload.requests import Requests

NAN = float("nan")


def req(
    arrival: float,
    prompt: int = 10,
    output: int = 1,
    admitted: float = NAN,
    first: float = NAN,
    finished: float = NAN,
    generated: int | None = None,
    reject: str = "",
    **more: Any,
) -> dict[str, Any]:
    """A request; it is finished if `finished` is given, rejected if `reject` is."""
    done = not np.isnan(finished)
    status = REJECTED if reject else FINISHED if done else UNFINISHED
    return {
        "arrival_s": arrival,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "max_tokens": output,
        "admitted_s": admitted,
        "first_token_s": first,
        "finished_s": finished,
        "generated_tokens": generated if generated is not None else (output if done else 0),
        "status": status,
        "reject_reason": REJECT_REASONS.index(reject),
    } | more


def step(start: float, end: float, **columns: Any) -> dict[str, Any]:
    """A step; all of its time is the GPU's unless `host_s` is given."""
    host = columns.get("host_s", 0.0)
    return {"start_s": start, "end_s": end, "gpu_s": end - start - host} | columns


def _column(rows: Sequence[Mapping[str, Any]], name: str, dtype: Any, default: Any = 0) -> Any:
    return np.array([row.get(name, default) for row in rows], dtype=dtype)


def recording(
    requests: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]] = (),
    gaps: Sequence[tuple[float, int]] = (),
    *,
    losses: Sequence[tuple[int, float, float]] = (),
    end_s: float | None = None,
    usable_kv_blocks: int = 100,
    block_size: int = 16,
    replicas: int = 1,
    class_names: tuple[str, ...] = ("default",),
) -> Recording:
    """Recording of the given rows; columns that a row leaves out are 0 (times: NaN)."""
    table = Requests(
        arrival_s=_column(requests, "arrival_s", np.float64),
        prompt_tokens=_column(requests, "prompt_tokens", np.int64),
        output_tokens=_column(requests, "output_tokens", np.int64),
        max_tokens=_column(requests, "max_tokens", np.int64),
        predicted_tokens=_column(requests, "predicted_tokens", np.float64, NAN),
        priority=_column(requests, "priority", np.int64),
        class_id=_column(requests, "class_id", np.int64),
        class_names=class_names,
    )
    outcome_types = {
        "status": np.int8,
        "reject_reason": np.int8,
    } | dict.fromkeys(("arrival_s", "admitted_s", "first_token_s", "finished_s"), np.float64)
    outcome = Outcome(
        **{
            f.name: _column(requests, f.name, outcome_types.get(f.name, np.int64))
            for f in fields(Outcome)
        }
    )
    step_types = dict.fromkeys(
        ("start_s", "end_s", "gpu_s", "host_s", "overlapped_s"), np.float64
    ) | dict.fromkeys(("context_tokens", "kv_tokens"), np.int64)
    ends = [row["end_s"] for row in steps] + [
        row["finished_s"] for row in requests if not np.isnan(row["finished_s"])
    ]
    return Recording(
        requests=table,
        outcome=outcome,
        steps=Steps(
            **{
                f.name: _column(steps, f.name, step_types.get(f.name, np.int32))
                for f in fields(Steps)
            }
        ),
        gaps=InterTokenGaps(
            gap_s=np.array([gap for gap, _ in gaps], np.float64),
            count=np.array([count for _, count in gaps], np.int32),
        ),
        losses=Losses(
            request=np.array([row for row, _, _ in losses], np.int64),
            from_s=np.array([start for _, start, _ in losses], np.float64),
            until_s=np.array([end for _, _, end in losses], np.float64),
        ),
        end_s=max(ends, default=0.0) if end_s is None else end_s,
        usable_kv_blocks=usable_kv_blocks,
        block_size=block_size,
        replicas=replicas,
    )


def resolved(*overrides: str) -> Resolved:
    """A resolved scenario for `summarize`: 4 seats, 64 tokens per step, linear cost."""
    return resolve(
        Scenario.from_mapping(
            {
                "name": "by hand",
                "workload": {
                    "arrivals": {"process": "poisson", "rate": 1.0},
                    "lengths": {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 2},
                    "num_requests": 10,
                },
                "model": "llama-3.1-8b",
                "scheduler": {"max_num_seqs": 4, "max_num_batched_tokens": 64},
                "kv_cache": {"num_gpu_blocks": 101, "max_model_len": 64},
                "cost_model": {"kind": "linear", "t_mem_s": 0.010, "t_flop_s_per_token": 0.0001},
            }
        ).with_overrides(overrides)
    )
