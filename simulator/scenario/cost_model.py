"""What a step of the engine costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from simulator.scenario.base import NonNegative, Positive, Section
from simulator.scenario.files import OWN_CODE

FileName = Annotated[str, Field(min_length=1)]
EffectName = Literal[
    "longest_context", "uneven_batches", "shared_launch", "past_of_chunk", "eager_steps"
]


class _Cost(Section):
    time_scale: Positive = 1.0
    """every step takes this many times as long: 1.05 asks what if the prices are 5 % too low"""


class CalibratedCost(_Cost):
    """Roofline per operation, fitted to measured kernels, and the engine's host time."""

    kind: Literal["calibrated"] = "calibrated"
    coefficients: Annotated[tuple[FileName, ...], Field(strict=False)] = ()
    """files of `servecast calibrate`, in place of the shipped ones of the same data type"""
    host: FileName | None = None
    """file of `servecast calibrate --from-benchmark`; null: the release's host time"""
    without: Annotated[tuple[EffectName, ...], Field(strict=False)] = ()
    """what real steps take beyond their kernels, switched off by name"""


class LinearCost(_Cost):
    """t_mem_s + tokens * t_flop_s_per_token + sequences * t_seq_s: the teaching model."""

    kind: Literal["linear"]
    t_mem_s: NonNegative
    """seconds per step, to read the weights"""
    t_flop_s_per_token: NonNegative
    """seconds per token of the step"""
    t_seq_s: NonNegative = 0.0
    """seconds per sequence of the step"""


class DatasheetCost(_Cost):
    """The calibrated form with other GPUs' efficiencies, for a GPU that nobody measured."""

    kind: Literal["datasheet"]
    host: FileName | None = None
    """file of `servecast calibrate --from-benchmark`; null: the release's host time"""


class TableCost(_Cost):
    """Your own step times, linear between the rows of a CSV file."""

    kind: Literal["table"]
    path: Annotated[str, Field(min_length=1)]
    """columns tokens, step_ms and, for decodes, decode_seqs, context; relative to this file"""
    allow_extrapolation: bool = False
    """go on along the last piece beyond the rows; false: refuse"""


class OwnCost(_Cost):
    """Your own cost model; ``kind: module:attr`` is short for this."""

    kind: Literal["own"]
    attr: Annotated[str, Field(pattern=OWN_CODE)]
    """module:attr or path/to/file.py:attr, a function that makes a `CostForm`"""


def _spelled_out(value: Any) -> Any:
    """``kind: module:attr`` as ``kind: own, attr: module:attr``; without a kind: calibrated."""
    if isinstance(value, Mapping) and "kind" not in value:
        return {"kind": "calibrated", **value}
    if isinstance(value, Mapping) and re.fullmatch(OWN_CODE, str(value.get("kind"))):
        return {**value, "kind": "own", "attr": value["kind"]}
    return value


CostModelSpec = Annotated[
    CalibratedCost | LinearCost | DatasheetCost | TableCost | OwnCost,
    Field(discriminator="kind"),
    BeforeValidator(_spelled_out),
]
