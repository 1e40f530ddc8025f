"""Mixture-of-experts layers of NVIDIA's published kernel tables, see `aiconfigurator`.

Tokens are spread over the experts by a power law of exponent 1.01, which is nearer to real
routers than a balanced spread.  Where experts are dealt out over several ranks, tokens are
those of all of them together and the time is that of the rank that most are sent to.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.catalog.devices import PEAK_OF
from cost_models.importers import aiconfigurator, profile

# The first type with rows counts: recipes for gpt-oss take fp8 activations where the GPU has
# 4-bit units.  Elsewhere measured servers do products of 4-bit weights as Marlin does, not as
# the rows of Triton's kernel.
MARLIN = "marlin"
# (engine, version, type) whose rows of the same kernels add the shapes that an engine lacks.
STAND_INS = {
    "w4a8_mxfp4_mxfp8": ("trtllm", "1.3.0rc20", "w4a8_mxfp4_mxfp8"),
    "w4a16_mxfp4": ("sglang", "0.5.10", "int4_wo"),
}
DTYPES = {
    "bf16": ("bfloat16",),
    "fp8": ("fp8",),
    "fp8_block": ("fp8_block",),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4"),
}
NO_UNIT = ("bf16", "mxfp4")  # computed in bf16 where the GPU has no unit for it
DISTRIBUTION = "power_law_1.01"
COLUMNS = {
    "num_tokens": "tokens",
    "inter_size": "intermediate_size",
    "topk": "per_token",
    "moe_tp_size": "tp",
    "moe_ep_size": "ep",
}
KEYS = ["hidden_size", "intermediate_size", "per_token", "num_experts", "tp", "ep", "tokens"]
MOST_RANKS = 8  # of one node, among which messages are measured too


def _has_unit(gpu: Gpu, dtype: str) -> bool:
    return PEAK_OF.get(dtype, dtype) in gpu.peak_flops_per_s


def read(
    source: str, gpu: Gpu, engine: str, version: str | None = None
) -> tuple[dict[str, pd.DataFrame], str]:
    """By weight type, one row per shape and number of tokens; and the tables' version.

    Raises
    ------
    InputError : for a GPU, engine or version without such tables.
    """
    root = aiconfigurator.data_root(source)
    folder = aiconfigurator.folder_of(root, gpu)
    raw, found = aiconfigurator.read_table(root, folder, "moe", engine, "moe_perf", version)
    rows = _rows(raw)
    rejected: dict[str, int] = {}
    tables = {}
    for dtype, ways in DTYPES.items():
        known = [name for name in ways if (rows["moe_dtype"] == name).any()]
        if known and (dtype in NO_UNIT or _has_unit(gpu, dtype)):
            table = rows[rows["moe_dtype"] == known[0]]
            if dtype == "mxfp4":
                table = _four_bit(table, known[0], root, folder)
            tables[dtype] = profile.clean(table, KEYS, f"experts, {dtype}", rejected)
    return tables, found


def _rows(raw: pd.DataFrame) -> pd.DataFrame:
    rows = raw[(raw["moe_ep_size"] <= MOST_RANKS) & (raw["distribution"] == DISTRIBUTION)]
    return rows.rename(columns=COLUMNS).assign(seconds=rows["latency"] * 1e-3)


def _four_bit(table: pd.DataFrame, name: str, root: Path, folder: str) -> pd.DataFrame:
    """Rows of 4-bit weights by the kernels that servers run, with another engine's shapes."""
    engine, version, of = STAND_INS[name]
    marlin = table["kernel_source"].str.contains(MARLIN)
    if name == "w4a16_mxfp4":
        if not marlin.any():
            return table
        table = table[marlin]
    if not (root / folder / "moe" / engine / version).is_dir():
        return table
    raw, _ = aiconfigurator.read_table(root, folder, "moe", engine, "moe_perf", version)
    return pd.concat([table, _rows(raw[raw["moe_dtype"] == of])])
