"""What a step of the engine costs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.scenario.base import NonNegative, Section


class CalibratedCost(Section):
    """Roofline per operation, fitted to measured kernels, and the engine's host time."""

    kind: Literal["calibrated"] = "calibrated"


class LinearCost(Section):
    """t_mem_s + tokens * t_flop_s_per_token + sequences * t_seq_s: the teaching model."""

    kind: Literal["linear"]
    t_mem_s: NonNegative
    """seconds per step, to read the weights"""
    t_flop_s_per_token: NonNegative
    """seconds per token of the step"""
    t_seq_s: NonNegative = 0.0
    """seconds per sequence of the step"""


CostModelSpec = Annotated[CalibratedCost | LinearCost, Field(discriminator="kind")]
