"""Results of ``vllm bench serve --save-result``, one run per JSON file.

What the file does not hold (GPU, tensor-parallel size, release) comes from its own keys
if the benchmark was given them with ``--metadata gpu=... tp=... engine_version=...``, or
from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cost_models.catalog import files
from simulator.errors import InputError
from simulator.validation import names
from simulator.validation.measured import METRICS, CannotSimulateError, Measured

NEEDED = ("num_prompts", "completed", "total_input_tokens", "total_output_tokens", "mean_tpot_ms")


def read(path: Path, given: Mapping[str, Any]) -> Measured:
    """The run of one file.

    Parameters
    ----------
    path : a JSON file.
    given : gpu, tp, engine_version, weight_dtype, kv_dtype, max_num_seqs and
        max_num_batched_tokens where the caller knows them.

    Raises
    ------
    InputError : when the file is not such a result, or what it lacks is not given.
    CannotSimulateError : when the catalogue lacks its model or GPU.
    """
    data = files.read_json(path)
    missing = [key for key in NEEDED if key not in data]
    if missing:
        raise InputError(
            f"{path}: has no {', '.join(missing)}; give what `vllm bench serve --save-result` "
            "writes."
        )
    known = {**data, **{key: value for key, value in given.items() if value is not None}}
    if not known.get("gpu"):
        raise InputError(
            f"{path}: does not say on which GPU it was measured; give --gpu, or run the "
            "benchmark with --metadata gpu=NAME tp=N engine_version=X."
        )
    if not data["completed"]:
        raise CannotSimulateError("no request completed")
    load, value = _load(data)
    requests = _requests(data)
    model = str(known.get("model_id", ""))
    mean_in = data["total_input_tokens"] / data["completed"]
    mean_out = data["total_output_tokens"] / data["completed"]
    return Measured(
        where=path.name,
        engine="vllm",
        engine_version=_text(known, "engine_version"),
        gpu=names.gpu(str(known["gpu"])),
        model=names.model(model),
        weight_dtype=names.weight_dtype(
            str(known.get("weight_dtype") or ("fp8" if "fp8" in model.lower() else "bf16")), model
        ),
        kv_dtype=names.kv_dtype(str(known.get("kv_dtype", ""))),
        tp=int(known.get("tp") or known.get("tensor_parallel_size") or 1),
        load=load,
        load_value=value,
        prompt_tokens=_spread(requests, 0, mean_in),
        output_tokens=_spread(requests, 1, mean_out),
        num_requests=int(data["num_prompts"]),
        max_num_seqs=_count(known, "max_num_seqs"),
        max_num_batched_tokens=_count(known, "max_num_batched_tokens"),
        results={
            name: float(data[key])
            for name, key in METRICS.items()
            if isinstance(data.get(key), int | float) and data[key] > 0
        },
    )


def _load(data: Mapping[str, Any]) -> tuple[str, float]:
    seats, rate = data.get("max_concurrency"), data.get("request_rate", "inf")
    if seats:
        if rate not in ("inf", None, float("inf")):
            raise CannotSimulateError("a request rate and a limit on concurrency together")
        return "closed_loop", float(seats)
    if rate in ("inf", None, float("inf")):
        return "burst", float(data["num_prompts"])
    if float(data.get("burstiness", 1.0)) != 1.0:
        raise CannotSimulateError("a burstiness other than 1")
    return "poisson", float(rate)


def _requests(data: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(prompt, output) tokens of each request, where the benchmark saved them."""
    return list(zip(data.get("input_lens") or (), data.get("output_lens") or (), strict=False))


def _spread(requests: list[tuple[int, int]], which: int, mean: float) -> tuple[int, int]:
    """Shortest and longest; the mean for both where only that is known."""
    found = [request[which] for request in requests if request[which] > 0]
    return (min(found), max(found)) if found else (max(1, round(mean)),) * 2


def _text(known: Mapping[str, Any], key: str) -> str | None:
    value = known.get(key)
    return None if value is None else names.version(str(value))


def _count(known: Mapping[str, Any], key: str) -> int | None:
    value = known.get(key)
    return None if value is None else int(value)
