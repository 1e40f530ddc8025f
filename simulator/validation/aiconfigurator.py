"""What AIConfigurator predicts for measured rows: mean TTFT and TPOT of closed loops.

Its package (extra ``calibrate``) holds the kernel tables, and an estimator of aggregated
serving at a steady batch; it knows neither arrivals nor the start of a run.
"""

from __future__ import annotations

import json
import logging
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from cost_models import catalog
from cost_models.catalog import files
from cost_models.importers.aiconfigurator import GEMM_DTYPES, KV_DTYPES
from simulator.errors import InputError
from simulator.validation.measured import Measured

DEFAULT_CTX_TOKENS = 8192  # prefill tokens of a step where a row does not say
MOE_DTYPES = {**GEMM_DTYPES, "mxfp4": "w4a16_mxfp4"}


def predict(row: Measured) -> dict[str, float]:
    """Mean TTFT and TPOT in ms; empty where it has no answer.

    Raises
    ------
    InputError : when the package is not installed.
    """
    if row.load not in ("closed_loop", "batch"):
        return {}
    try:
        from aiconfigurator_core.sdk.backends.factory import get_backend
        from aiconfigurator_core.sdk.config import RuntimeConfig
    except ImportError:
        raise InputError(
            "aiconfigurator-core is not installed; install it with "
            "`pip install 'servecast[calibrate]'`."
        ) from None
    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    try:
        database = _database(row.gpu, row.engine)
        model = _model(row.model, row.weight_dtype, row.kv_dtype, row.tp, row.engine)
        found = get_backend(row.engine).run_agg(
            model,
            database,
            RuntimeConfig(
                batch_size=int(row.load_value),
                isl=round(sum(row.prompt_tokens) / 2),
                osl=round(sum(row.output_tokens) / 2),
            ),
            ctx_tokens=row.max_num_batched_tokens or DEFAULT_CTX_TOKENS,
        )
        told = found.get_summary_df().iloc[0]
    except Exception:  # its errors have no common base: it has no answer for this row
        return {}
    return {"ttft_ms_mean": float(told["ttft"]), "tpot_ms_mean": float(told["tpot"])}


@lru_cache(maxsize=4)
def _database(gpu: str, engine: str) -> Any:
    from aiconfigurator_core.sdk import perf_database

    device = catalog.gpu(gpu)
    for name in (gpu, *device.aliases):
        version = perf_database.get_latest_database_version(name, engine)
        if version is not None:
            return perf_database.get_database(name, engine, version)
    raise LookupError(gpu)


@lru_cache(maxsize=64)
def _model(name: str, weight_dtype: str, kv_dtype: str, tp: int, engine: str) -> Any:
    """The model from the catalogue's facts, which are its config.json's."""
    from aiconfigurator_core.sdk.config_builders import build_model_config
    from aiconfigurator_core.sdk.models import get_model

    facts = files.read_mapping(files.find("models", name))
    facts.pop("quantization_config", None)
    shape = catalog.model(name)
    with tempfile.TemporaryDirectory() as folder:
        config = {"head_dim": shape.head_dim, "torch_dtype": "bfloat16", **facts}
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return get_model(
            folder,
            build_model_config(
                tp,
                1,
                1,
                tp,
                1,
                gemm_quant_mode=GEMM_DTYPES.get(weight_dtype, "bfloat16"),
                kvcache_quant_mode=KV_DTYPES[kv_dtype],
                fmha_quant_mode="bfloat16",
                moe_quant_mode=MOE_DTYPES[weight_dtype],
            ),
            engine,
        )
