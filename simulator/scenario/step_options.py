"""Options of a step: what it computes beside one token for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from simulator.scenario.base import NonNegative, Section, Share

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario


class SpeculativeSpec(Section):
    """Speculative decoding: a draft guesses tokens, the model checks them in one step."""

    num_speculative_tokens: Annotated[int, Field(ge=1, le=16)]
    """tokens that the draft guesses ahead in each step"""
    acceptance_rate: Annotated[float, Field(ge=0, le=1)]
    """probability that the model agrees with a guess, if it agreed with those before"""
    draft_cost: NonNegative = 0.0
    """time of one guess, as a share of a decode step of the model for the same requests: about
    0.05 for a drafting head, 0 for look-up in the prompt"""


class StructuredOutputSpec(Section):
    """Structured output: a grammar masks the tokens that may come next."""

    share: Share
    """share of the requests that ask for it"""
    grammar_s_per_seq: NonNegative
    """seconds of the engine's own code per such request and token"""


OPTIONS = ("speculative", "structured_output", "lora")


def options_of(scenario: Scenario) -> list[str]:
    """Keys of the options that are switched on."""
    return [key for key in OPTIONS if getattr(scenario.scheduler, key) is not None]


def entry_of(scenario: Scenario) -> str:
    """The policy as it is compiled.

    chunked_prefill with options is compiled apart, so that who uses none does not wait for them.
    """
    if scenario.scheduler.lora is not None:
        return "multi_lora"
    if options_of(scenario):
        return "step_options"
    if scenario.kv_cache.kv_offloading_size > 0:
        return "offloading"
    return scenario.scheduler.policy


def check_options(scenario: Scenario) -> None:
    """Refuse options beside what they are not simulated with.

    Raises
    ------
    ValueError
        One sentence that names both keys.
    """
    policy = scenario.scheduler.policy
    for key in options_of(scenario):
        if policy != "chunked_prefill":
            raise ValueError(
                f"scheduler.{key} is an option of the policy chunked_prefill, and the policy is "
                f"{policy}; remove one of the two"
            )
    allocator = scenario.kv_cache.allocator
    if scenario.scheduler.speculative is not None and allocator != "paged":
        raise ValueError(
            f"scheduler.speculative needs slots for drafts beyond what kv_cache.allocator "
            f"{allocator} reserves; choose the allocator paged"
        )
