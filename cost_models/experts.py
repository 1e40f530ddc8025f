"""Time of mixture-of-experts layers: measured tables, and a roofline for other shapes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from cost_models import by_dtype
from cost_models.by_dtype import ByDtype
from cost_models.catalog.layers import Experts
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.collectives import interpolate
from cost_models.errors import InputError
from cost_models.parallelism import Parallelism

ROOT = Path(__file__).parent / "coefficients" / "moe"
TILE_ROWS = 16  # tokens of one expert are computed in tiles of this many rows

Array = NDArray[np.float64]
Strict = ConfigDict(frozen=True, extra="forbid")


def distinct_experts(num_experts: int, per_token: int, tokens: ArrayLike) -> Array:
    """Experts that at least one of `tokens` tokens is sent to, when all are as likely."""
    missed = (1 - per_token / num_experts) ** np.asarray(tokens, dtype=np.float64)
    result: Array = num_experts * (1 - missed)
    return result


def roofline_s(
    params: dict[str, float],
    tokens: ArrayLike,
    hidden_size: ArrayLike,
    width: ArrayLike,
    num_experts: ArrayLike,
    per_token: ArrayLike,
    weight_bytes: float,
    ranks: ArrayLike = 1,
) -> Array:
    """One layer: the weights of the experts that are met, or the products of their tiles.

    `width` is the intermediate size on one rank.  Of `ranks` that the experts are dealt out
    over, it is the one that most of the `tokens`, of all ranks together, are sent to: its
    share of them is ranks^skew times an even one.
    """
    m, h, n, e, k, r = (
        np.asarray(x, dtype=np.float64)
        for x in (tokens, hidden_size, width, num_experts, per_token, ranks)
    )
    here = np.ceil(e / r)
    each = np.minimum(r ** params.get("rank_skew", 0.0) * k / e, 1.0)  # of a token, per expert
    met = here * (1 - (1 - each) ** m)
    sent = m * here * each
    memory_s = met * 3 * h * n * weight_bytes / params["weight_bytes_per_s"]
    memory_s = memory_s + sent * (2 * h + 3 * n) * 2 / params["activation_bytes_per_s"]
    rows = met * np.ceil(sent / met / TILE_ROWS) * TILE_ROWS
    compute_s = 2 * rows * 3 * h * n / params["flops_per_s"]
    longer, shorter = np.maximum(memory_s, compute_s), np.minimum(memory_s, compute_s)
    p = params["overlap"]
    result: Array = params["launch_s"] + longer * (1 + (shorter / longer) ** p) ** (1 / p)
    return result


class ExpertTable(BaseModel):
    """One layer of one shape on one rank; a time for each of the calibration's `tokens`.

    Each expert is split over `tp` ranks, or all are dealt out over `ep` of them.
    """

    model_config = Strict

    hidden_size: int
    intermediate_size: int
    per_token: int
    num_experts: int
    tp: int
    ep: int = 1
    microseconds: list[float]


class ExpertDtype(BaseModel):
    """The tables of one weight type, the rooflines fitted to them and their error.

    `dealt_out` is of experts that are dealt out over several ranks; None where no such rows
    were measured.
    """

    model_config = Strict

    tokens: list[int]
    roofline: dict[str, float]
    dealt_out: dict[str, float] | None = None
    tables: list[ExpertTable]
    report: dict[str, Any]


class ExpertCalibration(ByDtype[ExpertDtype]):
    """Measured layers of one GPU under one engine, by weight type."""


def shipped() -> Iterator[tuple[str, str, str, ExpertDtype]]:
    """(gpu, engine, weight type) of all that is in the package, with what was fitted."""
    for found in by_dtype.shipped(ExpertCalibration, ROOT):
        for dtype, fitted in found.dtypes.items():
            yield found.gpu, found.engine, dtype, fitted


def load(gpu: str, engine: str, dtype: str) -> tuple[ExpertCalibration, ExpertDtype]:
    """The shipped tables of a GPU under an engine for experts in `dtype`.

    Raises
    ------
    InputError : when there are none, naming those there are.
    """
    found = by_dtype.load(ExpertCalibration, ROOT, gpu, engine, "mixture-of-experts layers")
    if dtype not in found.dtypes:
        raise InputError(
            f"experts in {dtype} are not measured on {gpu} under {engine}; measured are "
            f"{', '.join(found.dtypes)}: choose one as model.weight_dtype."
        )
    return found, found.dtypes[dtype]


class ExpertTime:
    """Seconds of a model's expert layers on the GPU that takes longest.

    Parameters
    ----------
    experts, hidden_size : of the model.
    split : how its GPUs share them.
    gpu, engine : whose kernels.

    Raises
    ------
    InputError : where nothing like it was measured.
    """

    def __init__(
        self, experts: Experts, hidden_size: int, split: Parallelism, gpu: str, engine: str
    ):
        self.experts, self.hidden_size, self.split = experts, hidden_size, split
        self.calibration, self.measured = load(gpu, engine, experts.dtype)
        self.table = next((t for t in self.measured.tables if self._is_of(t)), None)
        if self.table is None and split.ep and self.measured.dealt_out is None:
            raise InputError(
                f"expert_parallel: experts in {experts.dtype} that are dealt out over GPUs are "
                f"not measured on {gpu} under {engine}; leave it off, or choose another type."
            )

    def _is_of(self, table: ExpertTable) -> bool:
        e = self.experts
        return (
            table.hidden_size,
            table.intermediate_size,
            table.per_token,
            table.num_experts,
            table.tp,
            table.ep,
        ) == (
            self.hidden_size,
            e.intermediate_size,
            e.per_token,
            e.num_experts,
            self.split.expert_tp,
            self.split.expert_ranks,
        )

    @property
    def error(self) -> dict[str, float]:
        """How far off the table, or the roofline, was where rows were left out of it."""
        name = "left-out shapes" if self.table is None else "left-out tokens"
        if self.table is None and self.split.expert_ranks > 1:
            name = "left-out shapes, dealt out"
        found: dict[str, float] = self.measured.report.get(name) or self.measured.report["roofline"]
        return found

    @property
    def source(self) -> str:
        """Where the number comes from."""
        return "roofline fit" if self.table is None else "measured table"

    def layer_s(self, tokens: ArrayLike) -> Array:
        """Seconds of one layer for each number of tokens; beyond a table in proportion.

        Tokens are those of all engines that share the experts together.
        """
        m = np.asarray(tokens, dtype=np.float64)
        if self.table is not None:
            return interpolate(self.measured.tokens, np.array(self.table.microseconds) * 1e-6, m)
        e = self.experts
        dealt_out = self.measured.dealt_out if self.split.expert_ranks > 1 else None
        roofline = self.measured.roofline if dealt_out is None else dealt_out
        return roofline_s(
            roofline,
            m,
            self.hidden_size,
            e.intermediate_size / self.split.expert_tp,
            e.num_experts,
            e.per_token,
            DTYPE_BYTES[e.dtype],
            self.split.expert_ranks,
        )

    def weight_bytes(self, tokens: int) -> float:
        """Bytes of the experts that `tokens` tokens meet on one GPU, over all layers."""
        e = self.experts
        met = float(distinct_experts(e.num_experts, e.per_token, tokens))
        gpus = self.split.expert_tp * self.split.expert_ranks
        one = 3 * self.hidden_size * e.intermediate_size / gpus * DTYPE_BYTES[e.dtype]
        return e.layers * met * one

    def flops(self, tokens: int) -> float:
        """FLOPs of all layers on one GPU, where tokens are spread evenly."""
        e = self.experts
        gpus = self.split.expert_tp * self.split.expert_ranks
        return 2.0 * tokens * e.params(self.hidden_size, e.per_token) / gpus
