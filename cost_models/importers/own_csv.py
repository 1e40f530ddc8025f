"""Kernel times in a CSV file of our own form, one measured case per row.

Columns: ``op`` and ``us`` (microseconds on one GPU, inside a CUDA graph) in every row, and

- gemm: ``m, n, k`` of ``[m, k] @ [k, n]``
- decode: ``num_heads, num_kv_heads`` (of one rank), ``head_dim, seqs, context``
- prefill: ``num_heads, num_kv_heads, head_dim, seqs, chunk``
- all_reduce: ``tp, elements`` (bf16)
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.errors import InputError
from cost_models.importers import profile
from cost_models.importers.profile import Profile

KEYS = {
    "gemm": profile.GEMM_KEYS,
    "decode": profile.DECODE_KEYS,
    "prefill": profile.PREFILL_KEYS,
    "all_reduce": profile.ALL_REDUCE_KEYS,
}
NEEDED = ("gemm", "decode", "prefill")  # one GPU reduces nothing


def read(path: Path, gpu: Gpu, engine: str, dtype: str, version: str | None = None) -> Profile:
    """The rows of a file as a `Profile`.

    Parameters
    ----------
    path : the CSV file.
    gpu, engine, dtype, version : what was measured; the file does not say.

    Raises
    ------
    InputError : for an unknown operation, a column or number that is missing.
    """
    try:
        raw = pd.read_csv(path)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error}).") from None
    missing = [column for column in ("op", "us") if column not in raw]
    if missing:
        raise InputError(f"{path}: has no column {', '.join(missing)}; every row needs op and us.")
    unknown = sorted(set(raw["op"].astype(str)) - set(KEYS))
    if unknown:
        raise InputError(f"{path}: op {unknown[0]!r} is not known; known are {', '.join(KEYS)}.")
    rejected: dict[str, int] = {}
    tables = {op: _table(raw[raw["op"] == op], op, path, rejected) for op in KEYS}
    for op in NEEDED:
        if tables[op].empty:
            raise InputError(f"{path}: has no {op} rows; a step cannot be priced without them.")
    return Profile(
        gpu=gpu.name,
        engine=engine,
        dtype=dtype,
        **tables,
        versions={"own": version or "not given"},
        source=path.name,
        licence="the user's own",
        rejected=rejected,
    )


def _table(rows: pd.DataFrame, op: str, path: Path, rejected: dict[str, int]) -> pd.DataFrame:
    """Rows of one operation: its keys as whole numbers, and seconds."""
    numbers = pd.DataFrame(index=rows.index)
    for column in (*KEYS[op], "us"):
        if column not in rows:
            if len(rows):
                raise InputError(f"{path}: has {op} rows but no column {column}.")
            numbers[column] = []
            continue
        numbers[column] = pd.to_numeric(rows[column], errors="coerce")
        bad = numbers.index[~(numbers[column] > 0)]
        if len(bad) and column != "us":
            raise InputError(
                f"{path}, line {bad[0] + 2}: {column} of {op} is {rows.loc[bad[0], column]}; "
                "give a number above 0."
            )
    table = numbers.astype(dict.fromkeys(KEYS[op], "int64")).assign(seconds=numbers["us"] * 1e-6)
    return profile.clean(table, KEYS[op], op, rejected)
