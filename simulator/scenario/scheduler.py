"""Which requests an engine computes in a step."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from simulator.scenario.base import Count, NonNegative, NonNegativeCount, Section
from simulator.scenario.files import OWN_CODE
from simulator.scenario.lora import LoraSpec
from simulator.scenario.step_options import SpeculativeSpec, StructuredOutputSpec

POLICIES = {
    "static": "fixed batches that run until their longest request ends",
    "continuous": "early vLLM: a step is either whole prompts or decodes, prompts first",
    "orca": "whole prompts mixed with decodes",
    "sglang": "SGLang: prompts first, in chunks; admission bets on short outputs; radix cache",
    "chunked_prefill": "vLLM V1: decodes and prompt chunks share a token budget",
}
ORDERS = {
    "fcfs": "in order of arrival; who was preempted goes in front",
    "sjf": "least predicted output first",
    "srpt": "least predicted output still to come first",
    "priority": "by the class's or the trace's priority, as vLLM does",
    "edf": "earliest deadline of the first token first: arrival + limit on TTFT",
    "fair": "the class that has been served least first (virtual token counter)",
}


def _known_or_own(known: dict[str, str]) -> AfterValidator:
    """Accept a name of `known`, or a user's code."""

    def check(name: str) -> str:
        if name not in known and not re.fullmatch(OWN_CODE, name):
            raise PydanticCustomError(
                "not_allowed", "not allowed", {"allowed": [*known, "module:attr"]}
            )
        return name

    return AfterValidator(check)


def _in_schema(known: dict[str, str]) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "string", "anyOf": [{"enum": [*known]}, {"pattern": f"^{OWN_CODE}$"}]}
    )


class StaticSpec(Section):
    """Settings of the static policy."""

    batch_size: Count = 32
    """most requests in a batch (max_batch_size of Triton)"""
    max_wait_s: NonNegative = 0.05
    """a batch that is not full starts when its oldest request has waited this long"""
    preferred_batch_sizes: list[Count] = Field(default_factory=list)
    """sizes at which a batch starts at once, the largest reached first (Triton's
    preferred_batch_size); empty: batch_size alone"""
    stream: bool = False
    """false: all results of a batch come back together, so TTFT = E2EL"""


class SchedulerSpec(Section):
    """Policy, queue order and limits; names and rules are vLLM's."""

    policy: Annotated[str, _known_or_own(POLICIES), _in_schema(POLICIES)] = "chunked_prefill"
    """static, continuous, orca, sglang, chunked_prefill, or your own as module:attr"""
    order: Annotated[str, _known_or_own(ORDERS), _in_schema(ORDERS)] = "fcfs"
    """order of the waiting queue: fcfs, sjf, srpt, priority, edf, fair, or your own function of
    the requests as module:attr"""
    max_num_seqs: Count | None = None
    """requests running at once; null: the engine release's default for this GPU"""
    max_num_batched_tokens: Count | None = None
    """tokens per step (chunked_prefill_size of sglang); null: the engine release's default"""
    long_prefill_token_threshold: NonNegativeCount = 0
    """largest chunk of one prompt while other requests are there; 0: no limit"""
    enable_chunked_prefill: bool = True
    async_scheduling: bool | None = None
    """compose a step while the one before runs; null: engine default for chunked_prefill"""
    watermark: Annotated[float, Field(ge=0, lt=1)] | None = None
    """part of the KV blocks that admissions leave free; null: the policy's own"""
    scheduler_reserve_full_isl: bool | None = None
    """admit a request only if blocks for its whole prompt are free; null: engine default"""
    preemption: Literal["recompute", "swap"] = "recompute"
    """swap (continuous only) copies a victim's KV to host memory instead of dropping it"""
    cpu_swap_gb: NonNegative = 4.0
    """GiB of host memory per GPU for swapped KV, by default those of vLLM"""
    overlap_swap: bool = False
    """copy swapped KV while the step computes, as vLLM did in 2023"""
    static: StaticSpec = StaticSpec()
    speculative: SpeculativeSpec | None = None
    """speculative decoding (chunked_prefill only, scheduled synchronously)"""
    structured_output: StructuredOutputSpec | None = None
    """requests with a grammar (chunked_prefill only)"""
    lora: LoraSpec | None = None
    """serves LoRA adapters beside the model (chunked_prefill only)"""
    max_queue: NonNegativeCount | None = None
    """requests that may wait for a seat at a replica; more are rejected; null: no limit"""
