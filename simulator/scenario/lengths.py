"""How long prompts and outputs of a statistical workload are, in tokens."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.scenario.base import Count, NonNegative, Positive, Section


class FixedLengths(Section):
    """Every request alike."""

    distribution: Literal["fixed"]
    prompt_tokens: Count
    """prompt length of every request"""
    output_tokens: Count
    """output length of every request"""


class LognormalLengths(Section):
    """Lognormal lengths with the given means and coefficients of variation."""

    distribution: Literal["lognormal"]
    mean_prompt_tokens: Positive
    """mean of the prompt lengths"""
    prompt_cv: NonNegative
    """standard deviation of the prompt lengths / their mean"""
    mean_output_tokens: Positive
    """mean of the output lengths"""
    output_cv: NonNegative
    """standard deviation of the output lengths / their mean"""
    correlation: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """of the logarithms of a request's prompt and output lengths; 0: independent"""
    max_prompt_tokens: Count | None = None
    """longer prompts are cut to this; null: no limit"""
    max_output_tokens: Count | None = None
    """longer outputs are cut to this; null: no limit"""


class UniformLengths(Section):
    """Independent uniform lengths, both ends included."""

    distribution: Literal["uniform"]
    min_prompt_tokens: Count
    """shortest prompt"""
    max_prompt_tokens: Count
    """longest prompt"""
    min_output_tokens: Count
    """shortest output"""
    max_output_tokens: Count
    """longest output"""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        for what in ("prompt_tokens", "output_tokens"):
            low, high = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            if low > high:
                raise ValueError(f"min_{what} is {low}, more than max_{what} {high}; exchange them")
        return self


class EmpiricalLengths(Section):
    """Pairs of lengths drawn, with replacement, from the rows of a file."""

    distribution: Literal["empirical"]
    file: Annotated[str, Field(min_length=1)]
    """CSV file with columns prompt_tokens, output_tokens, any trace, or texts (ShareGPT, or JSON
    lines with prompt and output_tokens); relative to the scenario file"""
    tokens_per_word: Annotated[float, Field(gt=0, le=100)] | None = None
    """for texts: tokens that a word (between blanks) is taken to have, about 1.3 in English"""


class CdfLengths(Section):
    """Total lengths by a distribution function, of which a share is output."""

    distribution: Literal["cdf"]
    file: Annotated[str, Field(min_length=1)]
    """JSON file with [[tokens, share of requests up to them], ...]; relative to the scenario"""
    output_share: Annotated[float, Field(gt=0, lt=1)]
    """part of each request's tokens that is output"""


class QuantileLengths(Section):
    """A table of quantiles, as `servecast trace synthesize` makes it of a trace."""

    distribution: Literal["quantiles"]
    file: Annotated[str, Field(min_length=1)]
    """JSON file with the table; relative to the scenario file"""


class AzureConversationLengths(Section):
    """Quantiles of the Azure LLM inference trace 2023, conversation service."""

    distribution: Literal["azure_conv_2023"]


class AzureCodeLengths(Section):
    """Quantiles of the Azure LLM inference trace 2023, coding service."""

    distribution: Literal["azure_code_2023"]


LengthsSpec = Annotated[
    FixedLengths
    | LognormalLengths
    | UniformLengths
    | EmpiricalLengths
    | CdfLengths
    | QuantileLengths
    | AzureConversationLengths
    | AzureCodeLengths,
    Field(discriminator="distribution"),
]
