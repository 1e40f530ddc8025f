"""What real steps take beyond the sum of their measured kernels, where it was measured.

Kernel tables hold uniform batches, chunks without a past and CUDA graphs.  Real batches are
uneven, chunks have a past, and large steps are launched kernel by kernel.  Each effect has
a name, can be switched off, and is fitted apart from the tables, to single engine steps or to
the engine's kernels on batches as they come.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files
from cost_models.errors import InputError

Strict = ConfigDict(frozen=True, extra="forbid")


class LongestContext(BaseModel):
    """The longest sequence of an uneven batch sets the pace of decode attention."""

    model_config = Strict

    s_per_token: float = Field(gt=0)
    base_s_per_layer: float = Field(ge=0)
    multiprocessors: int = Field(gt=0)

    def s_per_token_of(self, padded_seqs: int, kv_heads: int) -> float:
        """Seconds of one layer per token of the longest context.

        Each sequence and KV head is split over the multiprocessors that are left for it;
        when there are more of them than multiprocessors, they come in waves.
        """
        groups = padded_seqs * kv_heads
        splits = max(1, self.multiprocessors // groups)
        waves = max(1.0, groups / self.multiprocessors)
        return self.s_per_token * waves / splits


class UnevenBatches(BaseModel):
    """Decode attention of sequences with different contexts.

    Batches of equal sequences take the GPU in waves, which makes their times jump with the
    number of sequences; where contexts differ, work is spread and a roofline holds.  It
    stands in for the tables of even batches of this head size, over a bf16 cache.
    """

    model_config = Strict

    head_dim: int = Field(gt=0)
    launch_s: float = Field(gt=0)
    kv_bytes_per_s: float = Field(gt=0)
    per_seq_head_s: float = Field(ge=0)

    @property
    def roofline(self) -> dict[str, float]:
        """Parameters of `forms.decode_attention_s`."""
        return self.model_dump(exclude={"head_dim"})


class SharedLaunch(BaseModel):
    """Decodes and chunks of a step are one launch per layer, not two as in the tables."""

    model_config = Strict

    saved_s_per_layer: float = Field(gt=0)


class PastOfChunk(BaseModel):
    """A chunk's cost of what it finds cached, beyond its attention products."""

    model_config = Strict

    s_per_token_and_kv_head: float = Field(gt=0)


class EagerSteps(BaseModel):
    """Steps of more tokens than the largest CUDA graph, launched kernel by kernel."""

    model_config = Strict

    above_tokens: int = Field(gt=0)
    launch_s_per_layer: float = Field(ge=0)
    all_reduce_s: float = Field(ge=0)
    slowdown: float = Field(ge=1)


class Effects(BaseModel):
    """The effects measured on one GPU under one engine; None where not measured."""

    model_config = Strict

    source: str = ""
    longest_context: LongestContext | None = None
    uneven_batches: UnevenBatches | None = None
    shared_launch: SharedLaunch | None = None
    past_of_chunk: PastOfChunk | None = None
    eager_steps: EagerSteps | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the effects that are on."""
        return tuple(name for name in NAMES if getattr(self, name) is not None)


NAMES = (
    "longest_context",
    "uneven_batches",
    "shared_launch",
    "past_of_chunk",
    "eager_steps",
)


def path(gpu: str, engine: str) -> Path | None:
    """The file of a GPU's effects under an engine; None where none were measured."""
    name = f"{gpu}-{engine}"
    return files.ROOT / "effects" / f"{name}.yaml" if name in files.names("effects") else None


def load(gpu: str, engine: str) -> Effects:
    """Effects of a GPU under an engine; none where none were measured."""
    file = path(gpu, engine)
    if file is None:
        return Effects()
    return files.validate(Effects, files.read_mapping(file), str(file))


def less(measured: Effects, without: Collection[str]) -> Effects:
    """Effects less those switched off.

    Raises
    ------
    InputError : when `without` names what is no effect.
    """
    unknown = sorted(set(without) - set(NAMES))
    if unknown:
        raise InputError(f"effect {unknown[0]!r} is not known; there are {', '.join(NAMES)}.")
    return measured.model_copy(update=dict.fromkeys(without))
