"""Kernel profiles in Vidur's form: a folder with mlp.csv, attention.csv and all_reduce.csv.

Times are milliseconds of one layer; medians are taken.  Products are given by the model
they belong to, attention by the sequences that all have the same chunk and cache, and
all-reduces in bytes of 16-bit elements.  With one worker alone all_reduce.csv may be missing.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.csv_files import read_csv
from cost_models.errors import InputError
from cost_models.importers import profile
from cost_models.importers.profile import Profile

MLP_KEYS = ["n_head", "n_kv_head", "n_embd", "n_expanded_embd", "use_gated_mlp", "num_tokens"]
ATTENTION_KEYS = ["n_embd", "n_q_head", "n_kv_head", "batch_size", "prefill_chunk_size"]
ATTENTION_KEYS += ["kv_cache_size", "is_prefill"]
ALL_REDUCE_KEYS = ["rank", "num_workers", "size", "devices_per_node", "max_devices_per_node"]
WORKERS = "num_tensor_parallel_workers"


def is_one(source: str) -> bool:
    """Whether a folder holds such a profile."""
    return (Path(source) / "mlp.csv").is_file()


def read(folder: Path, gpu: Gpu, engine: str, dtype: str, version: str | None = None) -> Profile:
    """The tables of a folder as a `Profile`.

    Parameters
    ----------
    folder : with mlp.csv, attention.csv and, for more than one GPU, all_reduce.csv.
    gpu, engine, dtype, version : what was measured; the files do not say.

    Raises
    ------
    InputError : for a file that is missing, or lacks a column.
    """
    rejected: dict[str, int] = {}
    mlp = _csv(folder / "mlp.csv", [*MLP_KEYS, WORKERS])
    attention = _csv(folder / "attention.csv", [*ATTENTION_KEYS, WORKERS])
    prefill = attention[attention["is_prefill"].astype(bool)]
    decode = attention[~attention["is_prefill"].astype(bool)]
    if (prefill["kv_cache_size"] > 0).any():
        rejected["prefill: cached prefix"] = int((prefill["kv_cache_size"] > 0).sum())
        prefill = prefill[prefill["kv_cache_size"] == 0]
    return Profile(
        gpu=gpu.name,
        engine=engine,
        dtype=dtype,
        gemm=profile.clean(_products(mlp, folder), profile.GEMM_KEYS, "gemm", rejected),
        decode=profile.clean(
            _heads(decode, "attn_decode", folder).assign(
                seqs=decode["batch_size"], context=decode["kv_cache_size"] + 1
            ),
            profile.DECODE_KEYS,
            "decode",
            rejected,
        ),
        prefill=profile.clean(
            _heads(prefill, "attn_prefill", folder).assign(
                seqs=prefill["batch_size"], chunk=prefill["prefill_chunk_size"]
            ),
            profile.PREFILL_KEYS,
            "prefill",
            rejected,
        ),
        all_reduce=_all_reduce(folder / "all_reduce.csv", rejected),
        versions={"vidur": version or "not given"},
        source=f"{folder.name} (Vidur profile)",
        licence="the user's own",
        rejected=rejected,
    )


def _csv(path: Path, columns: list[str]) -> pd.DataFrame:
    table = read_csv(path)
    missing = [column for column in columns if column not in table]
    if missing:
        raise InputError(
            f"{path}: has no column {', '.join(missing)}, which Vidur's profiles have."
        )
    return table


def _seconds(table: pd.DataFrame, operation: str, where: Path) -> pd.Series:
    column = f"time_stats.{operation}.median"
    if column not in table:
        raise InputError(f"{where}: has no column {column}, which Vidur's profiles have.")
    return table[column] * 1e-3


def _products(mlp: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The four products of a layer on one worker."""
    workers, hidden = mlp[WORKERS], mlp["n_embd"]
    head_dim = hidden // mlp["n_head"]
    queries = hidden // workers
    keys_values = 2 * (mlp["n_kv_head"] // workers).clip(lower=1) * head_dim
    width = mlp["n_expanded_embd"] // workers
    gates = mlp["use_gated_mlp"].astype(bool).astype(int) + 1
    shapes = {
        "attn_pre_proj": (queries + keys_values, hidden),
        "attn_post_proj": (hidden, queries),
        "mlp_up_proj": (gates * width, hidden),
        "mlp_down_proj": (hidden, width),
    }
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "m": mlp["num_tokens"],
                    "n": n,
                    "k": k,
                    "seconds": _seconds(mlp, operation, folder / "mlp.csv"),
                }
            )
            for operation, (n, k) in shapes.items()
        ],
        ignore_index=True,
    )


def _heads(rows: pd.DataFrame, operation: str, folder: Path) -> pd.DataFrame:
    """Heads of one worker, and seconds."""
    return pd.DataFrame(
        {
            "num_heads": rows["n_q_head"] // rows[WORKERS],
            "num_kv_heads": (rows["n_kv_head"] // rows[WORKERS]).clip(lower=1),
            "head_dim": rows["n_embd"] // rows["n_q_head"],
            "seconds": _seconds(rows, operation, folder / "attention.csv"),
        }
    )


def _all_reduce(path: Path, rejected: dict[str, int]) -> pd.DataFrame:
    """Groups within one node, as the first of their workers saw them."""
    if not path.is_file():
        return pd.DataFrame({name: [] for name in (*profile.ALL_REDUCE_KEYS, "seconds")})
    table = _csv(path, ALL_REDUCE_KEYS)
    one_node = table["devices_per_node"] == table["num_workers"]
    if not one_node.all():
        rejected["all_reduce: over several nodes"] = int((~one_node).sum())
    table = table[one_node & (table["rank"] == 0)]
    rows = pd.DataFrame(
        {
            "tp": table["num_workers"],
            "elements": table["size"] // 2,
            "seconds": _seconds(table, "all_reduce", path),
        }
    )
    return profile.clean(rows, profile.ALL_REDUCE_KEYS, "all_reduce", rejected)
