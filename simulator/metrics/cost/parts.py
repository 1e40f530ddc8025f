"""The replicas that a bill is for, pool by pool, where prefill and decode have their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simulator.metrics.cost.shares import class_shares
from simulator.metrics.cost.step_time import Floats, StepTime, step_time_of
from simulator.metrics.latency import Population
from simulator.metrics.leases import overlap_s, paid
from simulator.metrics.steps import in_window
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Equal replicas, what they did, and what their steps' time went to.

    Attributes
    ----------
    weight : what a second of one of its replicas costs, beside one of another part.
    first_decode : see `class_shares`.
    """

    recording: Recording
    resolved: Resolved
    time: StepTime
    weight: float
    first_decode: int = 1

    @property
    def price(self) -> float:
        """Dollars per GPU and hour, on demand."""
        return self.resolved.price_per_gpu_hour

    def gpu_s(self, who: Population) -> float:
        """Seconds of GPUs that are paid for in the benchmark's duration."""
        until_s = who.start_s + who.duration_s
        gpus = self.resolved.scenario.cluster.split.engine_gpus
        return gpus * overlap_s(paid(self.recording), who.start_s, until_s)

    def spent(self, who: Population) -> Floats:
        """(3,) seconds of the observed time by purpose, times the weight."""
        rows = in_window(self.recording.steps, who)
        return np.asarray(self.weight * self.time.by_purpose()[:, rows].sum(axis=1))


def parts_of(recording: Recording, resolved: Resolved) -> list[Part]:
    """All replicas as one part, or each pool as one."""
    if not resolved.pools:
        return [Part(recording, resolved, step_time_of(recording.steps, resolved), 1.0)]
    spec = resolved.scenario.cluster.pools
    assert spec is not None
    found = []
    for (_, pool, _), (name, known) in zip(recording.pools(), resolved.pools.items(), strict=True):
        # Where all cost nothing, by GPUs.
        each = known.price_per_hour if resolved.price_per_hour else float(known.num_gpus)
        weight = each / known.scenario.cluster.replicas
        first = 0 if name == "decode" and spec.first_token == "decode" else 1
        found.append(Part(pool, known, step_time_of(pool.steps, known), weight, first))
    return found


def shares_of_classes(parts: list[Part], who: Population) -> Floats:
    """(classes,) shares of the bill, each part's divided as `class_shares` does.

    A part that nobody used is idle time, divided like the others.
    """
    each = [class_shares(part.recording, part.time, who, part.first_decode) for part in parts]
    weights = np.array([part.weight * part.recording.replicas for part in parts])
    weights[[bool(np.isnan(shares).any()) for shares in each]] = 0.0
    if not weights.any():  # only what costs nothing was used, or nothing at all
        return np.full(len(each[0]), np.nan)
    return np.asarray(np.average(np.nan_to_num(each), axis=0, weights=weights))
