"""Measured results in a CSV file, one run per row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from cost_models.csv_files import read_csv
from simulator.errors import InputError
from simulator.validation import names
from simulator.validation.measured import METRICS, CannotSimulateError, Measured

NEEDED = ("engine", "gpu", "tp", "model", "isl", "osl", "load_kind", "load_value")

_UNIFORM = re.compile(r"uniform 0\.8-1\.0")
_FLAGS = {
    "max_model_len": re.compile(r"max[-_]model[-_]len[ =](\d+)"),
    "gpu_memory_utilization": re.compile(r"gpu[-_]memory[-_]utilization[ =]([\d.]+)"),
    "num_gpu_blocks": re.compile(r"kv_blocks (\d+)x16"),
    "kv_tokens": re.compile(r"kv tokens (\d+)"),
    "makespan_s": re.compile(r"makespan ([\d.]+)s"),
}

Trace = tuple[tuple[float, int, int], ...]


def read(path: Path, engine_version: str | None) -> Iterator[Measured | CannotSimulateError]:
    """Each row as what can be simulated, or as the reason why it cannot.

    Raises
    ------
    InputError : when the file is not such a table.
    """
    table = read_csv(path)
    missing = [column for column in NEEDED if column not in table]
    if missing:
        raise InputError(
            f"{path}: has no column {', '.join(missing)}; a table of measured results has "
            f"{', '.join(NEEDED)} and results such as ttft_ms_mean or tpot_ms_mean."
        )
    traces, waits = _request_files(path)
    for line, row in enumerate(table.to_dict("records"), start=2):
        cells = {str(key): value for key, value in row.items() if not pd.isna(value)}
        try:
            yield _measured(cells, f"{path.name}:{line}", engine_version, traces, waits)
        except CannotSimulateError as reason:
            yield reason


def _measured(
    row: dict[str, Any],
    where: str,
    engine_version: str | None,
    traces: dict[str, Trace],
    waits: dict[str, float],
) -> Measured:
    model, notes = str(row.get("model", "")), str(row.get("notes", ""))
    engine = names.engine(str(row.get("engine", "")))
    gpu = names.gpu(str(row.get("gpu", "")))
    _refuse(row)
    load, value = _load(row)
    flags = {key: found.group(1) for key, rule in _FLAGS.items() if (found := rule.search(notes))}
    results = {name: float(row[name]) for name in METRICS if name in row}
    trace = traces.get(gpu, ())
    if load == "trace":
        if not trace:
            raise CannotSimulateError("a trace, whose requests are not beside the file")
        results["queue_ms_mean"] = waits[gpu]
        if "makespan_s" in flags:
            results["makespan_s"] = float(flags["makespan_s"])
    if not results:
        raise CannotSimulateError("no result to compare")
    blocks = flags.get("num_gpu_blocks")
    if "kv_tokens" in flags:
        blocks = str(int(flags["kv_tokens"]) // 16)
    return Measured(
        where=where,
        engine=engine,
        engine_version=engine_version or _version(row),
        gpu=gpu,
        model=names.model(model),
        weight_dtype=names.weight_dtype(str(row.get("weight_precision", "bf16")), model),
        kv_dtype=names.kv_dtype(str(row.get("kv_precision", ""))),
        tp=int(row["tp"]),
        ep=row.get("ep", 1) > 1,
        load=load,
        load_value=value,
        prompt_tokens=(0, 0) if load == "trace" else _lengths(row, "isl"),
        output_tokens=(0, 0) if load == "trace" else _lengths(row, "osl"),
        requests=trace if load == "trace" else (),
        num_requests=_integer(row, "num_requests"),
        max_num_seqs=_integer(row, "max_num_seqs"),
        max_num_batched_tokens=_integer(row, "max_num_batched_tokens"),
        enable_chunked_prefill=row.get("chunked_prefill") not in (False, "False"),
        enable_prefix_caching=False if row.get("prefix_caching") in (False, "False") else None,
        async_scheduling=_async_scheduling(str(row.get("engine", "")), notes),
        num_gpu_blocks=int(blocks) if blocks else None,
        max_model_len=int(flags["max_model_len"]) if "max_model_len" in flags else None,
        gpu_memory_utilization=(
            float(flags["gpu_memory_utilization"]) if "gpu_memory_utilization" in flags else None
        ),
        results=results,
    )


def _async_scheduling(engine: str, notes: str) -> bool | None:
    """What a row says of it; an engine that runs in its client's process hides no work."""
    if "async-scheduling" in notes:
        return True
    return False if "in-process" in engine else None


def _version(row: dict[str, Any]) -> str:
    found = names.version(str(row.get("engine_version", "")))
    if found is None:
        raise CannotSimulateError("the engine's release is not given")
    return found


def _refuse(row: dict[str, Any]) -> None:
    """What this version does not simulate."""
    for column, what in (("pp", "pipeline"), ("dp", "data")):
        if row.get(column, 1) > 1:
            raise CannotSimulateError(f"{what} parallelism")
    if row.get("ep", 1) not in (1, row.get("tp")):
        raise CannotSimulateError("experts dealt out over other GPUs than tensor parallelism has")
    if not str(row.get("spec_decode", "none")).lower().startswith("none"):
        raise CannotSimulateError("speculative decoding")
    shared = "shared_prefix" in str(row.get("isl_dist", ""))
    if shared and row.get("prefix_caching") not in (False, "False"):
        raise CannotSimulateError("prefix caching, and the prompts' contents are not given")


def _load(row: dict[str, Any]) -> tuple[str, float]:
    kind = str(row.get("load_kind", ""))
    if kind.startswith("burst") or kind.startswith("offline"):
        return "burst", float(row.get("num_requests", 0))
    value = float(row.get("load_value", "nan"))
    kinds = {
        "concurrency": "closed_loop",
        "rate(poisson)": "poisson",
        "rate": "constant",
        "batch": "batch",
    }
    if kind.startswith("rate(trace"):
        return "trace", value
    if kind not in kinds or not value > 0:
        raise CannotSimulateError(f"load {kind or 'unknown'}")
    return kinds[kind], value


def _lengths(row: dict[str, Any], column: str) -> tuple[int, int]:
    """Shortest and longest prompt or output, in tokens."""
    kind, mean = str(row.get("isl_dist", "fixed")), float(row.get(column, "nan"))
    if not mean >= 1:
        raise CannotSimulateError("lengths are not given")
    if _UNIFORM.search(kind):
        # Clients give the nominal length, 10/9 of the mean; files, either of the two.
        nominal = mean if mean == round(mean) else mean / 0.9
        return round(0.8 * nominal), round(nominal)
    if kind.startswith(("fixed", "random fixed", "shared_prefix")):
        return round(mean), round(mean)
    raise CannotSimulateError(f"lengths of {kind}, whose spread is not given")


def _integer(row: dict[str, Any], column: str) -> int | None:
    return int(float(row[column])) if column in row else None


def _request_files(path: Path) -> tuple[dict[str, Trace], dict[str, float]]:
    """By GPU, the requests in ``<name>_requests.csv`` and their mean wait in ms."""
    file = path.with_name(f"{path.stem}_requests.csv")
    traces: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    waits: dict[str, list[float]] = defaultdict(list)
    if file.is_file():
        for row in pd.read_csv(file).to_dict("records"):
            try:
                gpu = names.gpu(str(row["gpu"]))
            except CannotSimulateError:
                continue
            traces[gpu].append((float(row["arrival_s"]), int(row["isl"]), int(row["osl"])))
            waits[gpu].append(float(row["queue_ms"]))
    ordered = {gpu: tuple(sorted(rows)) for gpu, rows in traces.items()}
    return ordered, {gpu: sum(found) / len(found) for gpu, found in waits.items()}
