"""Measured rows whose own figures contradict the conditions that they state.

By Little's law a closed loop's TTFT and TPOT say how many requests it ended per second.  Where
these ask for more than the GPU's fastest measured products and its memory bandwidth give,
something else was on: prompts were found in a prefix cache, fewer clients kept busy than told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from cost_models import calibration, catalog
from cost_models.errors import InputError
from simulator.validation.measured import CannotSimulateError, Measured

Row = Measured | CannotSimulateError


def requests_per_s(row: Measured) -> float | None:
    """What a row says of the rate at which requests ended; None where it does not."""
    results = row.results
    if row.load != "closed_loop" or not {"ttft_ms_mean", "tpot_ms_mean"} <= set(results):
        return results.get("req_per_s")
    decoded = sum(row.output_tokens) / 2 - 1
    return 1e3 * row.load_value / (results["ttft_ms_mean"] + decoded * results["tpot_ms_mean"])


def busy_share(row: Measured) -> float | None:
    """The least share of the run's time in which the GPU was busy; None where not known.

    Products of all tokens at the rate of the fastest ones measured on this GPU, then the
    contexts that each output token reads at the datasheet's bandwidth; both are kernels of one
    stream.  No weights, launches, exchange between GPUs nor host: a real run is far below 1.
    """
    rate = requests_per_s(row)
    if rate is None or row.load == "trace":
        return None
    try:
        model, gpu = catalog.model(row.model), catalog.gpu(row.gpu)
        kernels = calibration.load(gpu.name, row.engine, row.weight_dtype)
    except InputError:
        return None
    model = replace(model, kv_dtype=row.kv_dtype)
    prompt, output = sum(row.prompt_tokens) / 2, sum(row.output_tokens) / 2
    flops = model.linear_flops_per_token * (prompt + output)
    compute_s = flops / (row.tp * kernels.gemm.roofline["flops_per_s"])
    read_bytes = output * (prompt + output / 2) * model.kv_bytes_per_token(row.tp)
    return rate * (compute_s + read_bytes / gpu.memory_bandwidth_bytes_per_s)


def with_doubts(rows: Iterable[Row]) -> list[Row]:
    """The rows, with a doubt on all of a series of which half or more cannot be as told.

    A series is what one file holds of one engine release, GPU and model.
    """
    found = list(rows)
    series: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
    for index, row in enumerate(found):
        share = None if isinstance(row, CannotSimulateError) else busy_share(row)
        if isinstance(row, Measured) and share is not None:
            series[row.where.rpartition(":")[0], *row.group].append((index, share))
    for members in series.values():
        beyond = [share for _, share in members if share > 1]
        if 2 * len(beyond) < len(members):
            continue
        reason = (
            f"by their own TTFT and TPOT {len(beyond)} of {len(members)} runs ask for up to "
            f"{max(beyond):.1f} times what the GPU's fastest products and its memory give: their "
            "conditions are not those told (prompts found in a prefix cache?)"
        )
        for index, _ in members:
            row = found[index]
            if isinstance(row, Measured):
                found[index] = replace(row, doubt=reason)
    return found
