"""The scenario that runs what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cost_models import calibration
from simulator.scenario import Scenario
from simulator.validation.measured import Measured

REQUESTS_PER_SEAT = 10  # where a closed loop does not say how many it sent
FEWEST_REQUESTS = 20


def scenario(row: Measured, folder: Path, host: Path | None = None) -> Scenario:
    """Conditions of a measured row.

    Parameters
    ----------
    row : what was measured.
    folder : where a trace's requests are written, for the scenario to read.
    host : a file with the engine's own time; None is the release's.

    Notes
    -----
    Prompts of benchmarks are random and share nothing, but with prefix caching a request that
    was preempted finds its own blocks again.
    """
    scheduler: dict[str, Any] = {
        "max_num_seqs": row.max_num_seqs,
        "max_num_batched_tokens": row.max_num_batched_tokens,
        "enable_chunked_prefill": row.enable_chunked_prefill,
    }
    if row.engine == "sglang":
        scheduler["policy"] = "sglang"
    elif row.async_scheduling is not None:
        scheduler["async_scheduling"] = row.async_scheduling
    if row.load == "batch":
        scheduler["max_num_seqs"] = max(int(row.load_value), row.max_num_seqs or 0)
    return Scenario.from_mapping(
        {
            "name": row.where,
            "workload": _workload(row, folder),
            "model": {
                "name": row.model,
                "weight_dtype": row.weight_dtype,
                "kv_dtype": row.kv_dtype,
            },
            "cluster": {
                "gpu": row.gpu,
                "tensor_parallel": row.tp,
                "expert_parallel": row.ep,
                "engine": row.engine,
                "engine_version": row.engine_version,
            },
            "cost_model": {
                "kind": _cost_kind(row),
                "host": None if host is None else str(host.resolve()),
            },
            "scheduler": scheduler,
            "kv_cache": {
                "num_gpu_blocks": row.num_gpu_blocks,
                "max_model_len": row.max_model_len,
                "gpu_memory_utilization": row.gpu_memory_utilization,
                "enable_prefix_caching": row.enable_prefix_caching,
            },
        },
        folder,
    )


def _cost_kind(row: Measured) -> str:
    """Calibrated where anything of the GPU was measured, else of its datasheet."""
    known = any(entry[:2] == (row.gpu, row.engine) for entry in calibration.shipped())
    return "calibrated" if known else "datasheet"


def _request_s(row: Measured) -> float:
    """About how long one request takes, from what was measured.

    Clients of equal requests that start together would stay in step for ever, as no real
    ones do; they start one by one over half of this time.
    """
    first_ms = row.results.get("ttft_ms_mean", 0.0)
    each_ms = row.results.get("tpot_ms_mean", 0.0)
    return (first_ms + each_ms * (row.output_tokens[1] - 1)) / 1e3


def _workload(row: Measured, folder: Path) -> dict[str, Any]:
    if row.load == "trace":
        lines = ["arrival_s,prompt_tokens,output_tokens"]
        lines += [",".join(map(str, request)) for request in row.requests]
        (folder / "requests.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"trace": {"path": "requests.csv", "format": "csv"}}
    value = int(row.load_value)
    arrivals: dict[str, Any] = {"process": row.load}
    num_requests = row.num_requests
    max_concurrency = None
    if row.load == "closed_loop":
        arrivals["concurrency"] = value
        num_requests = num_requests or max(REQUESTS_PER_SEAT * value, FEWEST_REQUESTS)
        request_s = _request_s(row)
        if row.prompt_tokens[0] == row.prompt_tokens[1] and request_s > 0:
            # Twice the rate of the seats: after the start, these are the limit.
            arrivals = {"process": "constant", "rate": 2 * value / request_s}
            max_concurrency = value
    elif row.load in ("poisson", "constant"):
        arrivals["rate"] = row.load_value
    elif row.load == "batch":
        arrivals, num_requests = {"process": "burst"}, value
    return {
        "arrivals": arrivals,
        "lengths": {
            "distribution": "uniform",
            "min_prompt_tokens": row.prompt_tokens[0],
            "max_prompt_tokens": row.prompt_tokens[1],
            "min_output_tokens": row.output_tokens[0],
            "max_output_tokens": row.output_tokens[1],
        },
        "num_requests": num_requests,
        "max_concurrency": max_concurrency,
    }
