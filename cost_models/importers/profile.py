"""The common form of a measured kernel profile, whatever file it came from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

GEMM_KEYS = ["m", "n", "k"]
DECODE_KEYS = ["num_heads", "num_kv_heads", "head_dim", "seqs", "context"]
PREFILL_KEYS = ["num_heads", "num_kv_heads", "head_dim", "seqs", "chunk"]
MIXED_KEYS = [*DECODE_KEYS, "chunk", "past"]
SMALL_KEYS = ["m", "n"]
ALL_REDUCE_KEYS = ["tp", "elements"]

# Elements that a small kernel reads and writes, of each of its m · n inputs.
SMALL_ELEMENTS = {"norm": 4.0, "activation": 1.5}


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
    uneven : like decode, with the column longest; context is the mean of unequal contexts.
    past : like prefill, with the column past: tokens of each chunk that were cached before.
    mixed : like decode, and chunk and past of one more sequence in the same launch.
    small : columns m, n, elements_each, seconds; norms and activations over m · n elements.
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
    uneven: pd.DataFrame = field(default_factory=pd.DataFrame)
    past: pd.DataFrame = field(default_factory=pd.DataFrame)
    mixed: pd.DataFrame = field(default_factory=pd.DataFrame)
    small: pd.DataFrame = field(default_factory=pd.DataFrame)


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
