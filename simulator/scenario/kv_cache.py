"""Memory for keys and values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.scenario.base import MOST_HOST_GIB, Count, Section


class KvCacheSpec(Section):
    """Size and allocator of the KV cache of one replica."""

    allocator: Literal["paged", "contiguous", "contiguous_oracle", "buddy"] = "paged"
    """contiguous reserves prompt + max_tokens in one piece when a request is admitted, first
    fit; buddy rounds that up to a power of two; contiguous_oracle knows the real output"""
    block_size: Count | None = None
    """tokens per block (page_size of sglang); null: 16, and 1 for sglang"""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """part of GPU memory that the engine may use; null: engine default"""
    num_gpu_blocks: Annotated[int, Field(ge=2, le=20_000_000)] | None = None
    """blocks, as the engine's log gives them (one is a placeholder); null: what fits"""
    enable_prefix_caching: bool | None = None
    """find KV blocks of equal prefixes again; null: engine default for chunked_prefill"""
    kv_offloading_size: Annotated[float, Field(ge=0, le=MOST_HOST_GIB)] = 0.0
    """GiB of host memory per GPU that keep prefixes which the GPU evicts (chunked_prefill)"""
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    """most tokens of a request; null: the model's limit, lowered to what fits"""
