"""From measured modules of latent attention to tables of the attention alone, and errors.

What a module takes beyond its projections is the attention with its norms and rotary
embedding; the projections are priced by the matrix products' own calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cost_models import calibration, fit, forms, grids
from cost_models.calibrate import calibrate_decode, calibrate_prefill
from cost_models.calibration import Calibration
from cost_models.catalog import Gpu, Model, model
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.importers import profile
from cost_models.importers.aiconfigurator_mla import MODEL, Modules
from cost_models.latent import LatentCalibration, LatentDtype

SLOWEST_LAUNCH_S = 2e-4  # a module's dozen kernels, not one
# Of a module's time, about the error of its products: what is left below it tells nothing.
LEAST_SHARE = 0.05


def projections_s(gemms: Calibration, shape: Model, tp: int, tokens: fit.Array) -> fit.Array:
    """Seconds of one layer's projections on one of `tp` ranks."""
    width = DTYPE_BYTES[gemms.dtype]
    names = ("qkv_a_proj", "q_b_proj", "kv_b_proj", "o_proj")
    total = np.zeros_like(tokens)
    for name, n, k, _ in shape.gemm_shapes(tp):
        if name in names:
            seconds = forms.gemm_s(gemms.gemm.roofline, tokens, n, k, width)
            total += seconds * grids.gemm_ratio(gemms.gemm, tokens, n, k)
    return total


def _attention_alone(
    table: pd.DataFrame,
    tokens: fit.Array,
    gemms: Calibration,
    shape: Model,
    name: str,
    rejected: dict[str, int],
) -> pd.DataFrame:
    """Rows less their projections, where more than the error of these is left."""
    seconds = fit.column(table, "seconds").copy()
    heads = table["num_heads"].to_numpy()
    for count in np.unique(heads):
        rows = heads == count
        seconds[rows] -= projections_s(gemms, shape, shape.num_heads // int(count), tokens[rows])
    told = seconds >= LEAST_SHARE * fit.column(table, "seconds")
    if not told.all():
        rejected[f"{name}: within the error of the projections"] = int((~told).sum())
    return table.assign(num_kv_heads=1, seconds=seconds)[told]


def calibrate_latent(
    modules: Mapping[tuple[str, str], Modules],
    gpu: Gpu,
    engine: str,
    version: str,
    source: str,
    licence: str,
    rejected: dict[str, int],
) -> LatentCalibration:
    """Attention by the type of its KV cache, from modules with bf16 projections.

    Parameters
    ----------
    modules : by the types of KV cache and weights.
    gpu, engine : whose bf16 products are calibrated already.
    rejected : rows left out, by reason; more are counted here.
    """
    shape = model(MODEL)
    gemms = calibration.load(gpu.name, engine, "bf16")
    dtypes = {
        kv_dtype: _dtype(tables, gpu, kv_dtype, shape, gemms, rejected)
        for (kv_dtype, dtype), tables in modules.items()
        if dtype == "bf16"
    }
    return LatentCalibration(
        schema_version=1,
        gpu=gpu.name,
        engine=engine,
        version=version,
        source=source,
        licence=licence,
        dtypes=dtypes,
    )


def _dtype(
    tables: Modules,
    gpu: Gpu,
    kv_dtype: str,
    shape: Model,
    gemms: Calibration,
    rejected: dict[str, int],
) -> LatentDtype:
    latent = shape.latent
    assert latent is not None
    decode_name = f"decode less projections, {kv_dtype} cache"
    prefill_name = f"prefill less projections, {kv_dtype} cache"
    tokens = fit.column(tables.decode, "seqs")
    decode = _attention_alone(tables.decode, tokens, gemms, shape, decode_name, rejected)
    tokens = fit.column(tables.prefill, "seqs") * fit.column(tables.prefill, "chunk")
    prefill = _attention_alone(tables.prefill, tokens, gemms, shape, prefill_name, rejected)
    decode = profile.clean(
        decode.assign(head_dim=latent.cached // 2),
        profile.DECODE_KEYS,
        decode_name,
        rejected,
    )
    prefill = profile.clean(
        prefill.assign(head_dim=latent.prefill_width // 2),
        profile.PREFILL_KEYS,
        prefill_name,
        rejected,
    )
    fitted, decode_report = calibrate_decode(
        decode, gpu, latent.cached // 2, kv_dtype, SLOWEST_LAUNCH_S
    )
    prefills, prefill_report = calibrate_prefill(prefill, gpu, SLOWEST_LAUNCH_S)
    report: dict[str, Any] = {
        "decode attention": decode_report,
        "prefill attention": prefill_report,
    }
    return LatentDtype(decode=fitted, prefill=prefills, report=report)
