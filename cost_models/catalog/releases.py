"""Engine releases: what a server starts with when its operator says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files
from cost_models.catalog.devices import GIB, Gpu
from cost_models.errors import InputError


class HostTime(BaseModel):
    """The engine's own time, outside the GPU.

    With synchronous scheduling a step takes gpu + host; with asynchronous scheduling
    max(gpu + gap, host).  A request passes the API server before it is in the engine's
    queue: `per_request_s` (HTTP, processes' messages), however many there are, and
    `per_prompt_token_s` (tokeniser, blocks' hashes), one request after the other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_step_s: float = Field(ge=0)
    per_seq_s: float = Field(ge=0)
    gap_s: float = Field(gt=0)
    per_request_s: float = Field(default=0.0, ge=0)
    per_prompt_token_s: float = Field(default=0.0, ge=0)
    source: str


def read_host_time(path: Path) -> HostTime:
    """The engine's own time from a user's YAML or JSON file with the keys of `HostTime`.

    Raises
    ------
    InputError : when it is no such file.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; give what `servecast calibrate --from-benchmark` has written."
        )
    known = {k: v for k, v in files.read_mapping(path).items() if k in HostTime.model_fields}
    return files.validate(HostTime, known, str(path))


class BatchLimits(BaseModel):
    """Defaults of one class of GPUs; the first class that holds a GPU counts.

    `gpu_memory_utilization` takes the place of the release's where it follows the GPU.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_memory_gib: float = Field(ge=0)
    not_a100: bool = False
    max_num_batched_tokens: int = Field(gt=0)
    max_num_seqs: int = Field(gt=0)
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)


class Release(BaseModel):
    """One release, holding from `version` until the next one listed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    gpu_memory_utilization: float = Field(gt=0, le=1)
    utilization_of: Literal["total", "static", "free"] = "total"
    cuda_graph_memory_counted: bool
    async_scheduling: bool
    enable_prefix_caching: bool
    watermark: float = Field(ge=0, lt=1)
    scheduler_reserve_full_isl: bool
    scheduler_rules: str
    block_size: int = Field(gt=0)
    fp8_kv_read_as_bf16: bool = False
    batch_limits: list[BatchLimits] = Field(min_length=1)
    host: HostTime
    source: str


class EngineFile(BaseModel):
    """One engine: its releases, oldest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    releases: list[Release] = Field(min_length=1)


@dataclass(frozen=True)
class EngineDefaults:
    """What a release does on a GPU when nothing is set.

    Attributes
    ----------
    engine, version : the engine and the catalogue release that these come from.
    max_num_seqs, max_num_batched_tokens : batch limits of its API server on this GPU.
    gpu_memory_utilization : share of the GPU's memory that the engine may take ...
    utilization_of : ... for all that it holds (total), for weights and KV cache alone
        (static), or for the KV cache, of what the rest leaves free (free).
    cuda_graph_memory_counted : the KV cache is made smaller by the CUDA graphs.
    async_scheduling : the next step is scheduled while the GPU works on this one.
    enable_prefix_caching, watermark, scheduler_reserve_full_isl, block_size : of the
        scheduler and its KV cache.
    scheduler_rules : release whose scheduler this one's is taken to be: the nearest before it
        that was read and run.
    fp8_kv_read_as_bf16 : attention over an fp8 KV cache takes as long as over a bf16 one.
    host : the engine's own time per step and per sequence, scheduled synchronously.
    source : where the values come from.
    """

    engine: str
    version: str
    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    utilization_of: str
    cuda_graph_memory_counted: bool
    async_scheduling: bool
    enable_prefix_caching: bool
    watermark: float
    scheduler_reserve_full_isl: bool
    scheduler_rules: str
    block_size: int
    fp8_kv_read_as_bf16: bool
    host: HostTime
    source: str


def _version_key(version: str) -> tuple[int, ...]:
    parts = re.match(r"v?(\d+(?:\.\d+)*)", version)
    if parts is None:
        raise InputError(
            f"engine_version {version!r} is not a version number; write it like 0.12 or 0.12.0."
        )
    return tuple(int(part) for part in parts.group(1).split("."))


def _release(engine: str, releases: list[Release], version: str | None) -> Release:
    """The newest release not after `version`; the newest of all when it is None."""
    if version is None:
        return releases[-1]
    wanted = _version_key(version)
    found = [release for release in releases if _version_key(release.version) <= wanted]
    if not found:
        raise InputError(
            f"engine_version {version!r} of {engine} is older than {releases[0].version}, the "
            "oldest in the catalogue; its rules are not known."
        )
    return found[-1]


def engine_defaults(engine: str, version: str | None, gpu: Gpu) -> EngineDefaults:
    """Defaults of an engine's API server on a GPU.

    Parameters
    ----------
    engine : catalogue name, such as ``"vllm"``.
    version : a release number; one between two catalogue entries takes the older one's
        values, None the newest.
    gpu : memory and name decide the batch limits.

    Raises
    ------
    InputError : for an unknown engine, a malformed version, or one before the catalogue's.
    """
    path = files.find("engines", engine)
    data: dict[str, Any] = files.read_mapping(path)
    release = _release(engine, files.validate(EngineFile, data, str(path)).releases, version)
    memory_gib = gpu.cuda_visible_bytes / GIB
    limits = next(
        entry
        for entry in release.batch_limits
        if memory_gib >= entry.min_memory_gib and not (entry.not_a100 and gpu.is_a100)
    )
    shared = release.model_dump(exclude={"batch_limits", "host"})
    if limits.gpu_memory_utilization is not None:
        shared["gpu_memory_utilization"] = limits.gpu_memory_utilization
    return EngineDefaults(
        engine=engine,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        host=release.host,
        **shared,
    )
