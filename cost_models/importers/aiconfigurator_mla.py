"""Latent attention of NVIDIA's published kernel tables, see `aiconfigurator`.

Rows hold a whole attention module of DeepSeek-V3 on one rank: its projections, norms,
rotary embedding and the attention over the cache.  The context of a decode row is isl + step.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.importers import aiconfigurator, profile

MODEL = "deepseek-v3"  # whose projections the modules hold
KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
DECODE_KEYS = ["num_heads", "seqs", "context"]
PREFILL_KEYS = ["num_heads", "seqs", "chunk"]


class Modules(NamedTuple):
    """Attention modules with one type of weights and of KV cache, seconds of one layer.

    `decode` has the columns num_heads (of one rank), seqs, context; `prefill` num_heads,
    seqs, chunk.
    """

    decode: pd.DataFrame
    prefill: pd.DataFrame


def read(
    source: str, gpu: Gpu, engine: str, version: str | None = None
) -> tuple[dict[tuple[str, str], Modules], str, dict[str, int]]:
    """By the types of KV cache and weights; the tables' version; rows left out, by reason.

    Raises
    ------
    InputError : for a GPU, engine or version without such tables.
    """
    root = aiconfigurator.data_root(source)
    folder = aiconfigurator.folder_of(root, gpu)
    decode, found = aiconfigurator.read_table(
        root, folder, "mla", engine, "mla_generation_module_perf", version
    )
    prefill, _ = aiconfigurator.read_table(
        root, folder, "mla", engine, "mla_context_module_perf", found
    )
    decode = decode.assign(context=decode["isl"] + decode["step"])
    prefill = prefill[prefill["step"] == 0].rename(columns={"isl": "chunk"})
    rejected: dict[str, int] = {}
    tables = {
        (kv_dtype, dtype): Modules(
            _rows(decode, kv_dtype, dtype, DECODE_KEYS, rejected),
            _rows(prefill, kv_dtype, dtype, PREFILL_KEYS, rejected),
        )
        for kv_dtype in KV_DTYPES
        for dtype in aiconfigurator.GEMM_DTYPES
    }
    known = {key: modules for key, modules in tables.items() if len(modules.decode)}
    return known, found, rejected


def _rows(
    raw: pd.DataFrame, kv_dtype: str, dtype: str, keys: list[str], rejected: dict[str, int]
) -> pd.DataFrame:
    table = raw[
        (raw["kv_cache_dtype"] == KV_DTYPES[kv_dtype])
        & (raw["gemm_type"] == aiconfigurator.GEMM_DTYPES[dtype])
    ].rename(columns={"batch_size": "seqs"})
    table = table.assign(seconds=table["latency"] * 1e-3)
    return profile.clean(table, keys, f"latent attention, {kv_dtype} cache", rejected)
