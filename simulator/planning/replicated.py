"""One summary of several runs of the same scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from simulator.metrics.backlog import BACKLOGGED, OVERLOADED, STABLE

Summary = dict[str, Any]

STATES = (STABLE, BACKLOGGED, OVERLOADED)


def averaged(summaries: Sequence[Summary]) -> Summary:
    """Means of all figures, the worst state, and what limits on average.

    Of anything else, such as names, the first run's; an objective is met if it is in all runs.
    """
    first = summaries[0]
    if len(summaries) == 1:
        return first
    out = {key: _mean([one[key] for one in summaries]) for key in first}
    out["state"] = worst(one["state"] for one in summaries)
    out["latency_depends_on_run_length"] = out["state"] == OVERLOADED
    shares: dict[str, float] = {}
    for one in summaries:
        for limit in one["limits"]:
            share = limit["share"] / len(summaries)
            shares[limit["resource"]] = shares.get(limit["resource"], 0.0) + share
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    out["limits"] = [{"resource": name, "share": share} for name, share in ordered]
    return out


def worst(states: Iterable[str]) -> str:
    """The worst of several states."""
    return max(states, key=STATES.index)


def _mean(values: list[Any]) -> Any:
    """Mean of numbers, nested ones one by one; what is true or false must be so in all."""
    first = values[0]
    if all(isinstance(value, bool) for value in values):
        return all(values)
    if all(isinstance(value, int | float) for value in values):
        return first if all(value == first for value in values) else float(np.mean(values))
    if all(isinstance(value, dict) for value in values):
        shared = [key for key in first if all(key in value for value in values)]
        return {key: _mean([value[key] for value in values]) for key in shared}
    if all(isinstance(value, list) and len(value) == len(first) for value in values):
        return [_mean(list(items)) for items in zip(*values, strict=True)]
    return first
