"""Tenants and SLO tiers that share a workload."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simulator.scenario.arrivals import ArrivalsSpec
from simulator.scenario.base import LARGEST_COUNT, NonNegativeCount, Section, Share
from simulator.scenario.lengths import LengthsSpec
from simulator.scenario.slo import SloSpec


class ClassSpec(Section):
    """A tenant or SLO tier."""

    name: Annotated[str, Field(min_length=1)]
    """name of the class"""
    share: Share | None = None
    """part of the workload's requests, 0 to 1"""
    arrivals: ArrivalsSpec | None = None
    """own arrivals, in place of a share"""
    lengths: LengthsSpec | None = None
    """own lengths; null: the workload's"""
    shared_prefix_tokens: NonNegativeCount | None = None
    """own system prompt: leading tokens that all prompts of the class have in common; null: the
    workload's"""
    adapter: Annotated[str, Field(min_length=1)] | None = None
    """LoRA adapter that its requests ask for, by any name; null: the model itself"""
    priority: Annotated[int, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)] = 0
    """smaller is more urgent; read by scheduler.order: priority"""
    slo: SloSpec = SloSpec()
    """limits for this class, beside the scenario's"""


def check_classes(
    classes: tuple[ClassSpec, ...], *, shared_arrivals: bool, traced: bool, told_by_column: bool
) -> None:
    """Refuse classes that contradict each other or the workload that they divide.

    Parameters
    ----------
    shared_arrivals : the workload has arrivals of its own.
    traced : requests come from a trace.
    told_by_column : a column of the trace tells the class of each request.
    """
    names = [c.name for c in classes]
    for name in names:
        if names.count(name) > 1:
            raise _error(f"{name!r} stands twice; names must differ")
    for c in classes:
        _check_class(c, traced, told_by_column)
    with_arrivals = [c for c in classes if c.arrivals is not None]
    if with_arrivals:
        if len(with_arrivals) < len(classes) or shared_arrivals:
            raise _error(
                "either every class has its own arrivals and workload.arrivals is left out, or "
                "every class has a share of workload.arrivals"
            )
    elif classes and not told_by_column:
        without = [c.name for c in classes if c.share is None]
        if without:
            raise _error(f"{without[0]!r} has no share; every class needs one, together 1")
        total = sum(c.share or 0.0 for c in classes)
        if abs(total - 1.0) > 1e-6:
            raise _error(f"the shares add up to {total:g}; they must add up to 1")


def _check_class(c: ClassSpec, traced: bool, told_by_column: bool) -> None:
    if c.share is not None and c.arrivals is not None:
        raise _error(f"{c.name!r} has a share and arrivals; give one of the two")
    if c.arrivals is not None and c.arrivals.process in ("burst", "closed_loop"):
        raise _error(
            f"{c.name!r} has {c.arrivals.process} arrivals, which have no rate to mix with those "
            "of other classes; give the class another process"
        )
    for key in ("arrivals", "lengths"):
        if traced and getattr(c, key) is not None:
            raise _error(f"{c.name!r} has {key}, but workload.trace brings them; remove {key}")
    if told_by_column and c.share is not None:
        raise _error(
            f"{c.name!r} has a share, but workload.trace.class_column tells the classes; remove "
            "one of the two"
        )


def _error(sentence: str) -> ValueError:
    return ValueError(f"workload.classes: {sentence}")
