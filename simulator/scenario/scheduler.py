"""Which requests an engine computes in a step."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from simulator.scenario.base import Count, NonNegative, NonNegativeCount, Section

POLICIES = {
    "static": "fixed batches that run until their longest request ends",
    "continuous": "early vLLM: a step is either whole prompts or decodes, prompts first",
    "orca": "whole prompts mixed with decodes",
    "chunked_prefill": "vLLM V1: decodes and prompt chunks share a token budget",
}
_USER_POLICY = re.compile(r"[^:\s]+:[A-Za-z_]\w*")


def _known_policy(name: str) -> str:
    if name not in POLICIES and not _USER_POLICY.fullmatch(name):
        raise PydanticCustomError(
            "not_allowed", "not allowed", {"allowed": [*POLICIES, "module:attr"]}
        )
    return name


class StaticSpec(Section):
    """Settings of the static policy."""

    batch_size: Count = 32
    max_wait_s: NonNegative = 0.05
    """a batch that is not full starts when its oldest request has waited this long"""
    stream: bool = False
    """false: all results of a batch come back together, so TTFT = E2EL"""


class SchedulerSpec(Section):
    """Policy, queue order and limits; names and rules are vLLM's."""

    policy: Annotated[str, AfterValidator(_known_policy)] = "chunked_prefill"
    """static, continuous, orca, chunked_prefill, or your own as module:attr"""
    order: Literal["fcfs", "sjf", "priority"] = "fcfs"
    """order of the waiting queue"""
    max_num_seqs: Count | None = None
    """requests running at once; null: the engine release's default for this GPU"""
    max_num_batched_tokens: Count | None = None
    """tokens per step; null: the engine release's default for this GPU"""
    long_prefill_token_threshold: NonNegativeCount = 0
    """largest chunk of one prompt while other requests are there; 0: no limit"""
    enable_chunked_prefill: bool = True
    async_scheduling: bool | None = None
    """compose a step while the one before runs; null: engine default for chunked_prefill"""
    watermark: Annotated[float, Field(ge=0, lt=1)] | None = None
    """part of the KV blocks that admissions leave free; null: the policy's own"""
    scheduler_reserve_full_isl: bool | None = None
    """admit a request only if blocks for its whole prompt are free; null: engine default"""
    preemption: Literal["recompute"] = "recompute"
    static: StaticSpec = StaticSpec()
    max_queue: NonNegativeCount | None = None
    """requests that may wait for a seat at a replica; more are rejected; null: no limit"""
