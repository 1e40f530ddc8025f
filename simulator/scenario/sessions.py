"""Conversations of several turns in a statistical workload."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.scenario.base import Count, NonNegative, Section


class SessionsSpec(Section):
    """Arrivals start sessions; each turn repeats what was said and waits for the turn before."""

    mean_turns: Annotated[float, Field(ge=1)] | None = None
    """mean number of turns of a session"""
    file: Annotated[str, Field(min_length=1)] | None = None
    """table of turns, think times and first prompts, as `servecast trace synthesize` writes it; in
    place of mean_turns and think_time_s"""
    turns: Literal["geometric", "fixed"] = "geometric"
    """fixed: every session has mean_turns turns"""
    think_time_s: NonNegative = 0.0
    """mean time from the last token of a turn to the next turn's arrival"""
    think_cv: NonNegative = 1.0
    """coefficient of variation of the think times (gamma); 1: exponential, 0: all alike"""
    max_context_tokens: Count | None = None
    """a session ends before a prompt and its output exceed this; null: max_model_len"""

    @model_validator(mode="after")
    def _check_fixed(self) -> Self:
        if (self.mean_turns is None) == (self.file is None):
            raise ValueError("workload.sessions needs mean_turns or a file, one of the two")
        if self.file is not None and (self.turns, self.think_time_s) != ("geometric", 0.0):
            raise ValueError(
                "workload.sessions.file tells turns and think times; remove turns and think_time_s"
            )
        if self.mean_turns is None:
            return self
        if self.turns == "fixed" and not self.mean_turns.is_integer():
            raise ValueError(
                f"workload.sessions.mean_turns is {self.mean_turns:g}, but with turns: fixed it "
                "must be a whole number; change it or use turns: geometric"
            )
        return self
