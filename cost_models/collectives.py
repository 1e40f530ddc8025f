"""Time of messages between the GPUs of one node, from NCCL's measured tables.

What vLLM's default, ``allgather_reducescatter``, does around the experts of data-parallel
engines, and what pipeline stages send to the next one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from cost_models.catalog import Gpu, files
from cost_models.errors import InputError

ROOT = Path(__file__).parent / "coefficients" / "nccl"

# A GPU without tables: a launch, and this share of its link's rate, which is what the measured
# GPUs come to at large sizes.
LAUNCH_S = 7e-6
LINK_SHARE = 0.65
BF16_BYTES = 2

Array = NDArray[np.float64]
Strict = ConfigDict(frozen=True, extra="forbid")


class Collective(BaseModel):
    """An operation of bf16 elements, all ranks' together, among `ranks` GPUs."""

    model_config = Strict

    operation: str
    ranks: int
    elements: list[int]
    seconds: list[float]


class CollectiveCalibration(BaseModel):
    """Measured operations of one type of GPU."""

    model_config = Strict

    schema_version: int
    gpu: str
    version: str
    source: str
    licence: str
    tables: list[Collective]


@lru_cache(maxsize=16)
def _read(path: Path, modified_ns: int) -> CollectiveCalibration:
    return files.validate(CollectiveCalibration, files.read_json(path), str(path))


def interpolate(elements: ArrayLike, seconds: ArrayLike, size: ArrayLike) -> Array:
    """Seconds of each size, between the points of a table; beyond it in proportion."""
    known = np.asarray(elements, dtype=np.float64)
    wanted = np.asarray(size, dtype=np.float64)
    log_s = np.interp(np.log(np.maximum(wanted, 1)), np.log(known), np.log(seconds))
    result: Array = np.exp(log_s) * np.maximum(1.0, wanted / known[-1])
    return result


class Collectives:
    """Operations of NCCL between GPUs of one type."""

    def __init__(self, gpu: Gpu):
        self.gpu = gpu
        path = ROOT / f"{gpu.name}.json"
        self.measured = _read(path, path.stat().st_mtime_ns) if path.is_file() else None

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if self.measured is None:
            return f"assumed: {LINK_SHARE:.0%} of {self.gpu.link}"
        return f"NCCL {self.measured.version}, {self.measured.source}"

    def exchange_s(self, ranks: int, elements: ArrayLike) -> Array:
        """Gather `elements`, all ranks' together, on each rank, and scatter sums of as many."""
        return self._seconds("all_gather", ranks, elements) + self._seconds(
            "reduce_scatter", ranks, elements
        )

    def hand_on_s(self, tp: int, elements: ArrayLike) -> Array:
        """From the `tp` GPUs of a stage to those of the next, which need all of `elements`.

        Each sends its share, which the receivers then gather.  A message to one GPU is half of
        an all-to-all between two.
        """
        size = np.asarray(elements, dtype=np.float64)
        sent_s = self._seconds("alltoall", 2, 2 * size / tp)
        return sent_s if tp == 1 else sent_s + self._seconds("all_gather", tp, size)

    def _seconds(self, operation: str, ranks: int, elements: ArrayLike) -> Array:
        size = np.asarray(elements, dtype=np.float64)
        if self.measured is None:
            passed = size * BF16_BYTES * (ranks - 1) / ranks
            result: Array = LAUNCH_S + passed / (LINK_SHARE * self.gpu.link_bytes_per_s)
            return result
        tables = [table for table in self.measured.tables if table.operation == operation]
        for table in tables:
            if table.ranks == ranks:
                return interpolate(table.elements, table.seconds, size)
        known = ", ".join(str(table.ranks) for table in tables)
        raise InputError(
            f"groups of {ranks} GPUs: messages between {self.gpu.name} are measured among {known} "
            "of them only; choose one of these for data_parallel, and for tensor_parallel beside "
            "pipeline_parallel."
        )
