"""Kernel times in a CSV file of our own form, one measured case per row.

Columns: ``op`` and ``us`` (microseconds on one GPU, inside a CUDA graph) in every row, and

- gemm: ``m, n, k`` of ``[m, k] @ [k, n]``
- decode: ``num_heads, num_kv_heads`` (of one rank), ``head_dim, seqs, context``; for an uneven
  batch ``context`` is the mean and ``longest`` the longest
- prefill: ``num_heads, num_kv_heads, head_dim, seqs, chunk``, and ``past`` where a chunk finds
  tokens cached
- mixed: decodes as in decode, and one more sequence with ``chunk`` and ``past``, in one launch
- norm: ``m, n``, with the addition of a residual; activation: ``m, n`` with n of gate and up
- all_reduce: ``tp, elements`` (bf16)

Lines ``# name: value`` at the head say what was measured; `servecast profile` writes them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from cost_models.catalog import Gpu
from cost_models.csv_files import read_csv
from cost_models.errors import InputError
from cost_models.importers import profile
from cost_models.importers.profile import Profile

KEYS = {
    "gemm": profile.GEMM_KEYS,
    "decode": [*profile.DECODE_KEYS, "longest"],
    "prefill": [*profile.PREFILL_KEYS, "past"],
    "mixed": profile.MIXED_KEYS,
    "norm": profile.SMALL_KEYS,
    "activation": profile.SMALL_KEYS,
    "all_reduce": profile.ALL_REDUCE_KEYS,
}
COLUMNS = (
    *("op", "us", "m", "n", "k", "num_heads", "num_kv_heads", "head_dim", "seqs"),
    *("context", "longest", "shape", "chunk", "past", "tp", "elements"),
)
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
    raw = read_csv(path, comment="#")
    facts = provenance(path)
    missing = [column for column in ("op", "us") if column not in raw]
    if missing:
        raise InputError(f"{path}: has no column {', '.join(missing)}; every row needs op and us.")
    unknown = sorted(set(raw["op"].astype(str)) - set(KEYS))
    if unknown:
        raise InputError(f"{path}: op {unknown[0]!r} is not known; known are {', '.join(KEYS)}.")
    if facts.get("dtype", dtype) != dtype:
        raise InputError(
            f"{path}: holds weights of {facts['dtype']}, not {dtype}; "
            f"give --dtype {facts['dtype']}."
        )
    raw = _spelled_out(raw)
    rejected: dict[str, int] = {}
    tables = {op: _table(raw[raw["op"] == op], op, path, rejected, len(facts)) for op in KEYS}
    for op in NEEDED:
        if tables[op].empty:
            raise InputError(f"{path}: has no {op} rows; a step cannot be priced without them.")
    decode, prefill = tables["decode"], tables["prefill"]
    even = decode["longest"] == decode["context"]
    small = [tables[op].assign(elements_each=each) for op, each in profile.SMALL_ELEMENTS.items()]
    return Profile(
        gpu=gpu.name,
        engine=engine,
        dtype=dtype,
        gemm=tables["gemm"],
        decode=decode[even],
        prefill=prefill[prefill["past"] == 0],
        all_reduce=tables["all_reduce"],
        uneven=decode[~even],
        past=prefill[prefill["past"] > 0],
        mixed=tables["mixed"],
        small=pd.concat(small),
        versions={"own": version or facts.get("attention") or "not given"},
        source=_source(path, facts),
        licence="the user's own",
        rejected=rejected,
    )


def _source(path: Path, facts: dict[str, str]) -> str:
    told = [facts[name] for name in ("device", "attention", "date") if name in facts]
    return f"{path.name} ({', '.join(told)})" if told else path.name


def _spelled_out(raw: pd.DataFrame) -> pd.DataFrame:
    """What a plain file leaves out: batches are even, and chunks find nothing cached."""
    decodes = raw["op"] == "decode"
    for column, value in (("longest", raw.get("context")), ("past", 0)):
        if column not in raw:
            raw[column] = np.nan
        raw[column] = raw[column].fillna(value)
    raw.loc[~decodes, "longest"] = np.nan
    return raw


def provenance(path: Path) -> dict[str, str]:
    """What the lines ``# name: value`` at the head of a file say was measured."""
    found: dict[str, str] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                break
            name, _, value = line[1:].partition(":")
            found[name.strip()] = value.strip()
    return found


def _told(value: object) -> str:
    return "missing" if value != value else str(value)


def _table(
    rows: pd.DataFrame, op: str, path: Path, rejected: dict[str, int], head_lines: int
) -> pd.DataFrame:
    """Rows of one operation: its keys as whole numbers, and seconds."""
    numbers = pd.DataFrame(index=rows.index)
    for column in (*KEYS[op], "us"):
        if column not in rows:
            if len(rows):
                raise InputError(f"{path}: has {op} rows but no column {column}.")
            numbers[column] = []
            continue
        numbers[column] = pd.to_numeric(rows[column], errors="coerce")
        lowest = 0 if column == "past" else 1
        bad = numbers.index[~(numbers[column] >= lowest)]
        if len(bad) and column != "us":
            raise InputError(
                f"{path}, line {bad[0] + 2 + head_lines}: {column} of {op} is "
                f"{_told(rows.loc[bad[0], column])}; "
                f"give {lowest} or more."
            )
    table = numbers.astype(dict.fromkeys(KEYS[op], "int64")).assign(seconds=numbers["us"] * 1e-6)
    return profile.clean(table, KEYS[op], op, rejected)
