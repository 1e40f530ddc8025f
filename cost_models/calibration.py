"""The coefficients of one GPU under one engine: their schema, and finding the shipped ones."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import Model, files
from cost_models.effects import Effects
from cost_models.errors import InputError

ROOT = Path(__file__).parent / "coefficients"

Row = list[int]
Strict = ConfigDict(frozen=True, extra="forbid")


class Gemm(BaseModel):
    """Matrix products: a roofline, and measured / roofline on a grid of sizes.

    `permille` has one row per (m, n), m outermost, with one value per k.  Empty when the
    profile is too small for a grid: then the roofline stands alone.
    """

    model_config = Strict

    roofline: dict[str, float]
    m: Row = Field(default=[])
    n: Row = Field(default=[])
    k: Row = Field(default=[])
    permille: list[Row] = Field(default=[])


class DecodeHeads(BaseModel):
    """Measured / roofline for one split of heads; a row per `seqs`, a value per `context`."""

    model_config = Strict

    num_heads: int
    num_kv_heads: int
    permille: list[Row]


class Decode(BaseModel):
    """Decode attention of one head size."""

    model_config = Strict

    head_dim: int
    roofline: dict[str, float]
    seqs: Row = Field(default=[])
    context: Row = Field(default=[])
    heads: list[DecodeHeads] = Field(default=[])


class Prefill(BaseModel):
    """Prefill attention: a fit per split of heads."""

    model_config = Strict

    num_heads: int
    num_kv_heads: int
    head_dim: int
    fit: dict[str, float]


class AllReduce(BaseModel):
    """Measured all-reduce of bf16 elements among `tp` GPUs of one node."""

    model_config = Strict

    tp: int
    elements: Row
    seconds: list[float]


class Elementwise(BaseModel):
    """Norms and activations: a launch each, and their bytes at a rate."""

    model_config = Strict

    launch_s: float
    bytes_per_s: float


class Calibration(BaseModel):
    """Everything fitted from one profile, where it came from and how well it fits.

    `dtype` is that of the weights in `gemm` and of the KV cache in `decode` and `prefill`;
    a type that only weights have comes without attention.  `elementwise` and `effects` are
    there if the profile had them; where not, what is shipped for the GPU holds.
    """

    model_config = Strict

    schema_version: int = Field(ge=1, le=1)
    gpu: str
    engine: str
    dtype: str
    versions: dict[str, str]
    source: str
    licence: str
    gemm: Gemm
    decode: list[Decode]
    prefill: list[Prefill]
    all_reduce: list[AllReduce]
    elementwise: Elementwise | None = None
    effects: Effects | None = None
    report: dict[str, Any]


def file_name(gpu: str, engine: str, dtype: str) -> str:
    """Name of the file that holds a calibration."""
    return f"{gpu}-{engine}-{dtype}.json"


@lru_cache(maxsize=16)
def _load(path: Path, modified_ns: int) -> Calibration:
    data = files.read_json(path)
    return files.validate(Calibration, data, str(path))


def read(path: Path) -> Calibration:
    """A calibration from a file; read once while the file stays the same."""
    return _load(path, path.stat().st_mtime_ns)


def shipped() -> list[tuple[str, str, str]]:
    """(gpu, engine, dtype) of each calibration in the package."""
    found = []
    for path in sorted(ROOT.glob("*.json")):
        gpu, engine, dtype = path.stem.rsplit("-", 2)
        found.append((gpu, engine, dtype))
    return found


def dtypes_used(model: Model) -> tuple[str, ...]:
    """Calibrations that a model is priced with: bf16 for lm_head, its weights, its KV cache.

    Latent attention has its own, see `cost_models.latent`.
    """
    cache = () if model.latent else (model.kv_dtype,)
    return tuple(dict.fromkeys(("bf16", model.weight_dtype, *cache)))


def files_used(model: Model, gpu: str, engine: str) -> dict[str, Path]:
    """The shipped files that a model's steps are priced from, by what they hold."""
    used = {dtype: ROOT / file_name(gpu, engine, dtype) for dtype in dtypes_used(model)}
    if model.experts is not None:
        used["experts"] = ROOT / "moe" / f"{gpu}-{engine}.json"
    if model.latent is not None:
        used["latent attention"] = ROOT / "mla" / f"{gpu}-{engine}.json"
    return used


def load(gpu: str, engine: str, dtype: str) -> Calibration:
    """The shipped calibration of a GPU under an engine.

    Raises
    ------
    InputError : when there is none, naming those there are.
    """
    path = ROOT / file_name(gpu, engine, dtype)
    if not path.is_file():
        here = [entry[2] for entry in shipped() if entry[:2] == (gpu, engine)]
        known = f"{gpu} has {', '.join(here)}" if here else _gpus_known(engine)
        raise InputError(
            f"no calibration of {gpu} under {engine} in {dtype}; {known}. Choose one of these, "
            "make yours with `servecast calibrate`, or use cost_model.kind datasheet or linear."
        )
    return read(path)


def own(paths: Collection[Path], gpu: str, engine: str) -> dict[str, Calibration]:
    """The user's calibrations, by data type.

    Raises
    ------
    InputError : for a file that is none, or of another GPU or engine.
    """
    found: dict[str, Calibration] = {}
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file; give what `servecast calibrate` has written.")
        mine = read(path)
        if (mine.gpu, mine.engine) != (gpu, engine):
            raise InputError(
                f"{path}: is of {mine.gpu} under {mine.engine}, not of {gpu} under {engine}; give "
                "one that is."
            )
        if mine.dtype in found:
            raise InputError(f"{path}: is the second file of {mine.dtype}; give one of each type.")
        found[mine.dtype] = mine
    return found


def report_of(gpu: str, engine: str, dtype: str) -> tuple[list[str], dict[str, Any]]:
    """Versions of a shipped calibration's tables, and the report of its error."""
    data = files.read_json(ROOT / file_name(gpu, engine, dtype))
    return sorted(set(data["versions"].values())), dict(data["report"])


@lru_cache(maxsize=64)
def without_grids(gpu: str, engine: str, dtype: str) -> Calibration:
    """A shipped calibration's fits alone, which are read much faster."""
    path = ROOT / file_name(gpu, engine, dtype)
    data = files.read_json(path)
    data["gemm"] = {"roofline": data["gemm"]["roofline"]}
    data["decode"] = [
        {"head_dim": entry["head_dim"], "roofline": entry["roofline"]} for entry in data["decode"]
    ]
    return files.validate(Calibration, data, str(path))


def _gpus_known(engine: str) -> str:
    gpus = dict.fromkeys(gpu for gpu, known, _ in shipped() if known == engine)
    return f"{engine} has {', '.join(gpus) or 'none'}"


def dump(calibration: BaseModel) -> str:
    """The calibration as JSON: what holds only numbers and words is on one line."""

    def render(value: Any, indent: str) -> str:
        inner = indent + " "
        if isinstance(value, dict):
            if not any(isinstance(item, (dict, list)) for item in value.values()):
                return json.dumps(value, ensure_ascii=False)
            lines = [
                f"{inner}{json.dumps(key, ensure_ascii=False)}: {render(v, inner)}"
                for key, v in value.items()
            ]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            lines = [inner + render(item, inner) for item in value]
            return "[\n" + ",\n".join(lines) + f"\n{indent}]"
        return json.dumps(value, ensure_ascii=False)

    return render(calibration.model_dump(exclude_none=True), "") + "\n"
