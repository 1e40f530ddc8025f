"""Measured latent attention (MLA): one GPU's attention modules less their projections.

All heads share one cached vector per token, so decodes read it once, as one KV head of half
its width would be read twice; prefills rebuild keys and values per head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from cost_models import by_dtype, calibration
from cost_models.by_dtype import ByDtype
from cost_models.calibration import Decode, Prefill

ROOT = calibration.ROOT / "mla"
Strict = ConfigDict(frozen=True, extra="forbid")


class LatentDtype(BaseModel):
    """Attention over a KV cache of one type, and how well it fits."""

    model_config = Strict

    decode: Decode
    prefill: list[Prefill]
    report: dict[str, Any]


class LatentCalibration(ByDtype[LatentDtype]):
    """Measured modules of one GPU under one engine, by the KV cache's type."""


def shipped() -> Iterator[tuple[str, str, str, LatentDtype]]:
    """(gpu, engine, KV cache's type) of all that is in the package, with what was fitted."""
    for found in by_dtype.shipped(LatentCalibration, ROOT):
        for dtype, fitted in found.dtypes.items():
            yield found.gpu, found.engine, dtype, fitted


def load(gpu: str, engine: str, kv_dtype: str) -> LatentDtype:
    """The shipped latent attention of a GPU under an engine.

    Raises
    ------
    InputError : when there is none, naming those there are.
    """
    found = by_dtype.load(LatentCalibration, ROOT, gpu, engine, "multi-head latent attention")
    return found.dtypes[kv_dtype]
