"""From measured mixture-of-experts layers to tables, a roofline for other shapes, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cost_models import experts, fit
from cost_models.catalog import Gpu
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.experts import ExpertCalibration, ExpertDtype, ExpertTable

SHAPE = ["hidden_size", "intermediate_size", "per_token", "num_experts"]
KEYS = [*SHAPE, "tp", "ep"]
LARGEST_TP = 8


def calibrate_experts(
    profiles: Mapping[str, pd.DataFrame],
    gpu: Gpu,
    engine: str,
    version: str,
    source: str,
    licence: str,
) -> ExpertCalibration:
    """Tables and a roofline for each weight type.

    Parameters
    ----------
    profiles : by weight type, columns `KEYS`, tokens, seconds; one layer on one rank.
    """
    return ExpertCalibration(
        schema_version=1,
        gpu=gpu.name,
        engine=engine,
        version=version,
        source=source,
        licence=licence,
        dtypes={dtype: _dtype(table, gpu, dtype) for dtype, table in profiles.items()},
    )


def _dtype(table: pd.DataFrame, gpu: Gpu, dtype: str) -> ExpertDtype:
    used = table[table["tp"] <= LARGEST_TP]
    tokens = sorted(int(m) for m in used["tokens"].unique())
    tables, left_out = [], []
    for key, rows in fit.groups(used, *KEYS):
        known = rows.set_index("tokens")["seconds"]
        if not set(tokens) <= set(known.index):
            continue
        seconds = known.loc[tokens].to_numpy(dtype=np.float64)
        left_out.append(_left_out(np.array(tokens, np.float64), seconds))
        tables.append(
            ExpertTable(
                **dict(zip(KEYS, key, strict=True)),
                microseconds=[float(f"{value * 1e6:.4g}") for value in seconds],
            )
        )
    whole, dealt_out = used[used["ep"] == 1], used[used["ep"] > 1]
    roofline, at_bound, undecided = _roofline(whole, gpu, dtype)
    predicted = _predict(roofline, whole, dtype)
    report: dict[str, Any] = {
        "roofline": fit.error_summary(predicted, fit.column(whole, "seconds")),
        "left-out shapes": _shapes_left_out(whole, gpu, dtype),
        "at_bound": at_bound,
        "undecided": undecided,
    }
    spread: dict[str, float] | None = None
    if len(dealt_out):
        spread, report["at_bound, dealt out"], _ = _roofline(dealt_out, gpu, dtype)
        report["left-out shapes, dealt out"] = _shapes_left_out(dealt_out, gpu, dtype)
    if left_out:
        joined = np.concatenate(left_out)
        report["left-out tokens"] = fit.error_summary(joined, np.ones_like(joined))
    return ExpertDtype(
        tokens=tokens, roofline=roofline, dealt_out=spread, tables=tables, report=report
    )


def _left_out(tokens: fit.Array, seconds: fit.Array) -> fit.Array:
    """Each inner point from its neighbours, relative to what was measured."""
    x, y = np.log(tokens), np.log(seconds)
    weight = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    result: fit.Array = np.exp(y[:-2] + weight * (y[2:] - y[:-2]) - y[1:-1])
    return result


def _roofline(table: pd.DataFrame, gpu: Gpu, dtype: str) -> fit.Fit:
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    # 4-bit weights are computed in bf16, or in fp8 where the GPU has 4-bit units.
    unit = ("fp8" if "fp4" in gpu.peak_flops_per_s else "bf16") if dtype == "mxfp4" else dtype
    peak = gpu.peak_flops(unit)
    bounds: fit.Bounds = {
        "launch_s": (1e-6, 2e-5, 3e-4),
        "weight_bytes_per_s": (0.05 * bandwidth, 0.6 * bandwidth, bandwidth),
        "activation_bytes_per_s": (0.01 * bandwidth, 0.3 * bandwidth, 4 * bandwidth),
        "flops_per_s": (0.02 * peak, 0.4 * peak, peak),
        "overlap": (1.0, 3.0, 20.0),
    }
    if (table["ep"] > 1).any():
        bounds["rank_skew"] = (1e-3, 0.3, 1.0)
    return fit.fit(lambda p: _predict(p, table, dtype), fit.column(table, "seconds"), bounds)


def _predict(params: dict[str, float], table: pd.DataFrame, dtype: str) -> fit.Array:
    m, tp, ep = (fit.column(table, name) for name in ("tokens", "tp", "ep"))
    h, n, k, e = (fit.column(table, name) for name in SHAPE)
    return experts.roofline_s(params, m, h, n / tp, e, k, DTYPE_BYTES[dtype], ep)


def _shapes_left_out(table: pd.DataFrame, gpu: Gpu, dtype: str) -> dict[str, float]:
    """Error of the roofline at shapes that its fit has not seen, a third at a time."""
    shapes = table[SHAPE].apply(tuple, axis=1)
    order = {shape: index for index, shape in enumerate(sorted(set(shapes)))}
    third = shapes.map(order) % 3
    predicted, measured = [], []
    for part in range(3):
        seen, unseen = table[third != part], table[third == part]
        if not len(seen) or not len(unseen):
            continue
        params = _roofline(seen, gpu, dtype).parameters
        predicted.append(_predict(params, unseen, dtype))
        measured.append(fit.column(unseen, "seconds"))
    if not measured:
        return {}
    return fit.error_summary(np.concatenate(predicted), np.concatenate(measured))
