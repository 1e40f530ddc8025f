"""The common form of a measured kernel profile, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

GEMM_KEYS = ["m", "n", "k"]
DECODE_KEYS = ["num_heads", "num_kv_heads", "head_dim", "seqs", "context"]
PREFILL_KEYS = ["num_heads", "num_kv_heads", "head_dim", "seqs", "chunk"]
ALL_REDUCE_KEYS = ["tp", "elements"]


@dataclass
class Profile:
    """Kernel times of one GPU under one engine, one row per measured case.

    Attributes
    ----------
    gpu, engine, dtype : what was measured; dtype is that of the weights.
    gemm : columns m, n, k, seconds; ``[m, k] @ [k, n]``.
    decode : columns num_heads, num_kv_heads (of one rank), head_dim, seqs, context (of
        each sequence, the new token included), seconds; one layer.
    prefill : columns num_heads, num_kv_heads, head_dim, seqs, chunk (of each), seconds;
        nothing cached before; one layer.
    all_reduce : columns tp, elements (bf16), seconds.
    versions : engine version by table.
    source, licence : where the rows come from.
    rejected : rows left out, by reason.
    """

    gpu: str
    engine: str
    dtype: str
    gemm: pd.DataFrame
    decode: pd.DataFrame
    prefill: pd.DataFrame
    all_reduce: pd.DataFrame
    versions: dict[str, str]
    source: str
    licence: str
    rejected: dict[str, int] = field(default_factory=dict)


def clean(
    table: pd.DataFrame, keys: list[str], name: str, rejected: dict[str, int]
) -> pd.DataFrame:
    """One row per case, in a fixed order: positive times only, repeats by their median."""
    good = table[table["seconds"] > 0]
    merged = good.groupby(keys)["seconds"].median().reset_index()
    for reason, count in (
        ("time not positive", len(table) - len(good)),
        ("repeat of a case", len(good) - len(merged)),
    ):
        if count:
            rejected[f"{name}: {reason}"] = count
    return merged.sort_values(keys, ignore_index=True)
