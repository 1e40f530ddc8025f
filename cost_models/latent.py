"""Measured latent attention (MLA): one GPU's attention modules less their projections.

All heads share one cached vector per token, so decodes read it once, as one KV head of half
its width would be read twice; prefills rebuild keys and values per head.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cost_models import calibration
from cost_models.calibration import Decode, Prefill
from cost_models.catalog import files
from cost_models.errors import InputError

ROOT = calibration.ROOT / "mla"
Strict = ConfigDict(frozen=True, extra="forbid")


class LatentDtype(BaseModel):
    """Attention over a KV cache of one type, and how well it fits."""

    model_config = Strict

    decode: Decode
    prefill: list[Prefill]
    report: dict[str, Any]


class LatentCalibration(BaseModel):
    """Measured modules of one GPU under one engine, by the KV cache's type."""

    model_config = Strict

    schema_version: int = Field(ge=1, le=1)
    gpu: str
    engine: str
    version: str
    source: str
    licence: str
    dtypes: dict[str, LatentDtype]


@lru_cache(maxsize=8)
def _read(path: Path, modified_ns: int) -> LatentCalibration:
    return files.validate(LatentCalibration, files.read_json(path), str(path))


def shipped() -> Iterator[tuple[str, str, str, LatentDtype]]:
    """(gpu, engine, KV cache's type) of all that is in the package, with what was fitted."""
    for path in sorted(ROOT.glob("*.json")):
        found = _read(path, path.stat().st_mtime_ns)
        for dtype, fitted in found.dtypes.items():
            yield found.gpu, found.engine, dtype, fitted


def load(gpu: str, engine: str, kv_dtype: str) -> LatentDtype:
    """The shipped latent attention of a GPU under an engine.

    Raises
    ------
    InputError : when there is none, naming those there are.
    """
    path = ROOT / f"{gpu}-{engine}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in ROOT.glob("*.json")))
        raise InputError(
            f"no measured multi-head latent attention for {gpu} under {engine}; there are {known}."
        )
    return _read(path, path.stat().st_mtime_ns).dtypes[kv_dtype]
