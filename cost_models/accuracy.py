"""How far whole serving runs, as measured by others, are from what step costs predict."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files

if TYPE_CHECKING:
    from cost_models.catalog import Gpu, Model


class Accuracy(BaseModel):
    """Predictions of time per output token against published measurements.

    Attributes
    ----------
    gpu, engine, weight_dtype : what was measured.
    runs : measured runs that were simulated under their own conditions.
    error : predicted / measured is within a factor of 1 + error, either way, for three
        quarters of the runs.
    models : that were served.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpu: str
    engine: str
    weight_dtype: str
    runs: int = Field(gt=0)
    error: float = Field(gt=0)
    models: str


class AccuracyTable(BaseModel):
    """All that is known.

    Attributes
    ----------
    source : whose measurements they are.
    elsewhere : `Accuracy.error` over the runs of all groups together.
    groups : by GPU, engine and type of the weights.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    elsewhere: float = Field(gt=0)
    groups: tuple[Accuracy, ...]


@cache
def measured() -> AccuracyTable:
    """The catalogue's table of measured runs."""
    path = files.ROOT / "accuracy.yaml"
    return files.validate(AccuracyTable, files.read_mapping(path), str(path))


def accuracy(model: Model, gpu: Gpu, engine: str) -> Accuracy | None:
    """How far predictions were off for weights of this type on this GPU; None: not measured."""
    for group in measured().groups:
        if (group.gpu, group.engine, group.weight_dtype) == (gpu.name, engine, model.weight_dtype):
            return group
    return None
