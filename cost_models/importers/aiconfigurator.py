"""NVIDIA's published kernel tables, from the PyPI package `aiconfigurator-core`.

Parquet files under ``systems/data/<gpu>/<family>/<engine>/<version>/``.  Times are
milliseconds of one operation on one GPU inside a CUDA graph.  What to beware of:
attention head counts are per rank; the context of a decode row is isl + step;
``window_size`` 0 is full attention; all-reduce sizes count elements, and its eager rows
hold about 18 µs of launch that a graph does not pay.  So do vLLM's rows of block-scaled fp8
products, of 60 to 600 µs each: another engine's rows of the same kernels stand in, where they
are shorter.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pandas as pd

from cost_models.catalog import Gpu
from cost_models.errors import InputError
from cost_models.importers import profile
from cost_models.importers.profile import Profile

SOURCE = "aiconfigurator-core"
GEMM_DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
HEAD_DIMS = (64, 128, 256)  # of the models in use; others are few and thinly measured

# Products of few tokens that take this many times those in bf16 wait for their launches; some
# kernels are slow for one token alone.
LAUNCH_FACTOR = 3.0
FEW_TOKENS = (2, 64)
STAND_INS = ("sglang", "trtllm")  # whose tables are timed in a graph, the nearest kernels first


def data_root(source: str) -> Path:
    """The ``systems/data`` folder: of the installed package, or below a given folder.

    Raises
    ------
    InputError : when the package is not installed, or the folder holds no tables.
    """
    if source == SOURCE:
        spec = importlib.util.find_spec("aiconfigurator_core")
        if spec is None or spec.origin is None:
            raise InputError(
                "aiconfigurator-core is not installed; install it with "
                "`pip install 'servecast[calibrate]'`."
            )
        return Path(spec.origin).parent / "systems" / "data"
    for root in (Path(source), Path(source) / "systems" / "data"):
        if any(root.glob("*/gemm")):
            return root
    raise InputError(
        f"{source}: holds no kernel tables; give {SOURCE!r} for the installed package, or a "
        "folder with <gpu>/<family>/<engine>/<version>/*.parquet."
    )


def folder_of(root: Path, gpu: Gpu) -> str:
    """Name of a GPU's folder: its own or an alias."""
    return next((name for name in (gpu.name, *gpu.aliases) if (root / name).is_dir()), gpu.name)


def source_name(source: str) -> str:
    """The source with its version, as coefficients name it."""
    if source == SOURCE:
        return f"{SOURCE} {importlib.metadata.version(SOURCE)} (PyPI)"
    return Path(source).name


def _version_order(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in folder.name.split("."))


def read_table(
    root: Path, gpu: str, family: str, engine: str, table: str, version: str | None
) -> tuple[pd.DataFrame, str]:
    """A table in the wanted version, or in the newest there is."""
    found = sorted(
        (path.parent for path in (root / gpu / family / engine).glob(f"*/{table}.parquet")),
        key=_version_order,
    )
    if version is not None:
        found = [folder for folder in found if folder.name == version]
    if not found:
        known = sorted(path.name for path in root.iterdir() if (path / "gemm").is_dir())
        raise InputError(
            f"no {table} table for {gpu}, {engine}"
            f"{'' if version is None else f' {version}'}; GPUs with tables: {', '.join(known)}."
        )
    return pd.read_parquet(found[-1] / f"{table}.parquet"), found[-1].name


def _gemm(raw: pd.DataFrame, dtype: str, rejected: dict[str, int]) -> pd.DataFrame:
    table = raw[raw["gemm_dtype"] == GEMM_DTYPES[dtype]]
    table = table.assign(seconds=table["latency"] * 1e-3)
    return profile.clean(table, profile.GEMM_KEYS, "gemm", rejected)


def _waits_for_launches(raw: pd.DataFrame, dtype: str) -> bool:
    """Whether products of a type were timed kernel by kernel, not in a graph."""
    few = raw[raw["m"].between(*FEW_TOKENS)]
    times = few.pivot_table(index=["m", "n", "k"], columns="gemm_dtype", values="latency")
    name = GEMM_DTYPES[dtype]
    if dtype == "bf16" or name not in times:
        return False
    ratio = (times[name] / times[GEMM_DTYPES["bf16"]]).median()
    return bool(ratio > LAUNCH_FACTOR)


def _gemm_in_graph(
    root: Path, folder: str, engine: str, dtype: str, version: str | None, rejected: dict[str, int]
) -> tuple[pd.DataFrame, str]:
    """Products of a type, and the version of the table they are from."""
    raw, found = read_table(root, folder, "gemm", engine, "gemm_perf", version)
    table = _gemm(raw, dtype, rejected)
    if not _waits_for_launches(raw, dtype):
        return table, found
    for other in STAND_INS:
        if other == engine or not (root / folder / "gemm" / other).is_dir():
            continue
        there, of_other = read_table(root, folder, "gemm", other, "gemm_perf", None)
        instead = _gemm(there, dtype, rejected)
        if len(instead):
            own = table.set_index(profile.GEMM_KEYS)["seconds"]
            known = own.reindex(pd.MultiIndex.from_frame(instead[profile.GEMM_KEYS])).to_numpy()
            shorter = instead["seconds"].where(~(known < instead["seconds"]), known)
            rejected["gemm: eager, not in a graph"] = int(
                len(own) - (known < instead["seconds"]).sum()
            )
            return instead.assign(seconds=shorter), f"{found} and {other} {of_other}"
    return table, found


def _attention(raw: pd.DataFrame, dtype: str, name: str, rejected: dict[str, int]) -> pd.DataFrame:
    table = raw[raw["kv_cache_dtype"] == KV_DTYPES.get(dtype, "none")]
    if "window_size" in table:
        windowed = table["window_size"] != 0
        if windowed.any():
            rejected[f"{name}: sliding window"] = int(windowed.sum())
        table = table[~windowed]
    usual = table["head_dim"].isin(HEAD_DIMS)
    if not usual.all():
        rejected[f"{name}: head_dim not {', '.join(map(str, HEAD_DIMS))}"] = int((~usual).sum())
    table = table[usual]
    table = table.rename(columns={"num_key_value_heads": "num_kv_heads", "batch_size": "seqs"})
    table = table.assign(seconds=table["latency"] * 1e-3)
    if name == "decode":
        table = table.assign(context=table["isl"] + table["step"])
        return profile.clean(table, profile.DECODE_KEYS, name, rejected)
    if (table["step"] != 0).any():
        rejected["prefill: cached prefix"] = int((table["step"] != 0).sum())
        table = table[table["step"] == 0]
    return profile.clean(
        table.rename(columns={"isl": "chunk"}), profile.PREFILL_KEYS, name, rejected
    )


def _all_reduce(raw: pd.DataFrame, rejected: dict[str, int]) -> pd.DataFrame:
    eager = raw["kernel_source"].str.contains("eager")
    if eager.any():
        rejected["all_reduce: eager, not in a graph"] = int(eager.sum())
    table = raw[~eager].rename(columns={"num_gpus": "tp", "message_size": "elements"})
    table = table.assign(seconds=table["latency"] * 1e-3)
    return profile.clean(table, profile.ALL_REDUCE_KEYS, "all_reduce", rejected)


def read(
    source: str, gpu: Gpu, engine: str, dtype: str = "bf16", version: str | None = None
) -> Profile:
    """The tables of one GPU and engine as a `Profile`.

    Parameters
    ----------
    source : ``"aiconfigurator-core"`` for the installed package, or a folder.
    gpu : whose tables, found by its name or an alias.
    engine : as the tables name it, such as ``vllm``.
    dtype : of the weights: bf16, fp8, fp8_block or nvfp4; attention is read for a KV cache of
        the same type, if it can have it.
    version : engine version; None takes the newest of each table, which the profile's
        `versions` tell.

    Raises
    ------
    InputError : for a GPU, engine, version or data type without tables.
    """
    if dtype not in GEMM_DTYPES:
        raise InputError(f"dtype {dtype!r}: allowed are {', '.join(GEMM_DTYPES)}.")
    root = data_root(source)
    folder = folder_of(root, gpu)
    rejected: dict[str, int] = {}
    gemm, gemm_version = _gemm_in_graph(root, folder, engine, dtype, version, rejected)
    tables = {
        "decode": ("attention", "generation_attention_perf"),
        "prefill": ("attention", "context_attention_perf"),
        "all_reduce": ("comm", "custom_allreduce_perf"),
    }
    raw: dict[str, pd.DataFrame] = {}
    versions = {"gemm": gemm_version}
    for name, (family, table) in tables.items():
        raw[name], versions[name] = read_table(root, folder, family, engine, table, version)
    result = Profile(
        gpu=gpu.name,
        engine=engine,
        dtype=dtype,
        gemm=gemm,
        decode=_attention(raw["decode"], dtype, "decode", rejected),
        prefill=_attention(raw["prefill"], dtype, "prefill", rejected),
        all_reduce=_all_reduce(raw["all_reduce"], rejected),
        versions=versions,
        source=source_name(source),
        licence="Apache-2.0, NVIDIA Corporation",
        rejected=rejected,
    )
    if result.gemm.empty:
        raise InputError(f"no {dtype} GEMM rows for {gpu.name}, {engine} {versions['gemm']}.")
    return result
