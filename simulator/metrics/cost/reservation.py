"""How many replicas to reserve for a year, with the rest taken on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics.latency import Population
from simulator.metrics.leases import count_over_time, paid
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


def reservation_figures(
    recording: Recording, resolved: Resolved, who: Population, price: float
) -> dict[str, Any]:
    """The cheapest split of the run's replicas, if all time were like its duration.

    A reserved replica is paid all the time, one on demand while it is there.  The k-th is
    therefore reserved if there are k or more for a larger share of the time than the reserved
    price is of the price on demand.
    """
    cluster = resolved.scenario.cluster
    reserved = cluster.reserved_price_per_gpu_hour
    gpu_dollars = cluster.split.engine_gpus / 3600
    times, count = count_over_time(paid(recording))
    edges = np.clip(np.append(times, np.inf), who.start_s, who.start_s + who.duration_s)
    length_s = np.diff(edges)
    most = int(count[length_s > 0].max(initial=0))
    cost = {}
    for k in range(most + 1):
        on_demand_s = float((np.maximum(count - k, 0) * length_s).sum())
        cost[k] = gpu_dollars * (on_demand_s * price + k * who.duration_s * (reserved or 0.0))
    best = min(cost, key=lambda k: cost[k])
    return {
        "reserved_price_per_gpu_hour": reserved,
        "reserved_replicas": None if reserved is None else best,
        "cost_with_reserved": None if reserved is None else cost[best],
        "cost_of_fixed_peak": gpu_dollars * price * most * who.duration_s,
    }
