"""Coefficients for a GPU that nobody measured: other GPUs' efficiencies of its datasheet peaks.

Rates are the geometric mean, over the measured GPUs, of achieved / peak; launch times their
median.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models import calibration
from cost_models.calibration import AllReduce, Calibration, Decode, Gemm, Prefill
from cost_models.catalog import Gpu
from cost_models.catalog import gpu as known_gpu
from cost_models.errors import InputError

ESTIMATED = (
    "steps of GPUs left out of the mean are 3 to 10 % off on average, and up to twice as long "
    "or short where tensor-parallel ranks talk over PCIe"
)
BANDWIDTHS = ("weight_bytes_per_s", "activation_bytes_per_s", "kv_bytes_per_s")


def load(gpu: Gpu, engine: str, dtype: str, without: tuple[str, ...] = ()) -> Calibration:
    """A calibration made of those of other GPUs.

    Parameters
    ----------
    gpu : its datasheet.
    engine, dtype : whose kernels, and of which type.
    without : GPUs that are left out, the GPU itself beside them.

    Raises
    ------
    InputError : when no other GPU was measured in `dtype`, or the GPU has no such unit.
    """
    gpu.peak_flops(dtype)
    names = [
        name
        for name, of, kind in calibration.shipped()
        if (of, kind) == (engine, dtype) and name != gpu.name and name not in without
    ]
    if not names:
        raise InputError(f"no GPU is measured under {engine} in {dtype}; choose another type.")
    measured = [(known_gpu(name), calibration.without_grids(name, engine, dtype)) for name in names]
    first = measured[0][1]
    head_dims = _common([{d.head_dim for d in found.decode} for _, found in measured])
    heads = _common(
        [{(p.num_heads, p.num_kv_heads, p.head_dim) for p in c.prefill} for _, c in measured]
    )
    return Calibration(
        schema_version=1,
        gpu=gpu.name,
        engine=engine,
        dtype=dtype,
        versions=first.versions,
        source=f"the datasheet and the efficiencies of {', '.join(names)}",
        licence=first.licence,
        gemm=Gemm(roofline=_scaled([(g, c.gemm.roofline) for g, c in measured], gpu, dtype)),
        decode=[
            Decode(
                head_dim=size,
                roofline=_scaled([(g, _decode(c, size)) for g, c in measured], gpu, "bf16"),
            )
            for size in head_dims
        ],
        prefill=[
            Prefill(
                num_heads=split[0],
                num_kv_heads=split[1],
                head_dim=split[2],
                fit=_scaled([(g, _prefill(c, split)) for g, c in measured], gpu, "bf16"),
            )
            for split in heads
        ],
        all_reduce=_all_reduce([(g, c) for g, c in measured if c.all_reduce], gpu),
        report={"estimated": ESTIMATED},
    )


def _common(sets: list[set[Any]]) -> list[Any]:
    return sorted(set.intersection(*sets))


def _decode(found: Calibration, head_dim: int) -> dict[str, float]:
    return next(entry.roofline for entry in found.decode if entry.head_dim == head_dim)


def _prefill(found: Calibration, split: tuple[int, int, int]) -> dict[str, float]:
    return next(p.fit for p in found.prefill if (p.num_heads, p.num_kv_heads, p.head_dim) == split)


def _scaled(measured: list[tuple[Gpu, dict[str, float]]], gpu: Gpu, dtype: str) -> dict[str, float]:
    """Each parameter by what it depends on: bandwidth, FLOP/s, or neither."""
    result = {}
    for name in measured[0][1]:
        values = np.array([params[name] for _, params in measured])
        if name in BANDWIDTHS:
            peaks = [of.memory_bandwidth_bytes_per_s for of, _ in measured]
            value = _mean(values / peaks) * gpu.memory_bandwidth_bytes_per_s
        elif name == "flops_per_s":
            peaks = [of.peak_flops(dtype) for of, _ in measured]
            value = _mean(values / peaks) * gpu.peak_flops(dtype)
        else:
            value = float(median(values.tolist()))
        result[name] = float(f"{value:.5g}")
    return result


def _mean(ratios: NDArray[np.float64]) -> float:
    return float(np.exp(np.log(ratios).mean()))


def _all_reduce(measured: list[tuple[Gpu, Calibration]], gpu: Gpu) -> list[AllReduce]:
    """Tables of the GPU whose link is nearest in rate, slower or faster by the ratio.

    Small messages are bound by latency and stay as they are.
    """
    if not measured:
        return []
    nearest, found = min(
        measured, key=lambda pair: abs(np.log(pair[0].link_bytes_per_s / gpu.link_bytes_per_s))
    )
    ratio = nearest.link_bytes_per_s / gpu.link_bytes_per_s
    tables = []
    for table in found.all_reduce:
        least_s = min(table.seconds)
        seconds = [least_s + (second - least_s) * ratio for second in table.seconds]
        tables.append(table.model_copy(update={"seconds": seconds}))
    return tables
