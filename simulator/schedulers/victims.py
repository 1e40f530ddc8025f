"""Who loses the seat when a running request finds no KV block."""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.queue import key_now
from simulator.engine.state import BY_PRIORITY, FAIR, FCFS, Engine
from simulator.engine.verbs import num_running, running_at


@njit
def choose_victim(engine: Engine, r: int) -> int:
    """Place in the running list of the request to preempt.

    fcfs and fair: the latest admitted.  Were it the tenant that has been served most, two
    tenants could take each other's blocks in turn for ever, since service changes who that
    is.  Another order: the last by (key, arrival, id), the key being what it would be in the
    queue now.  vLLM's ``max`` over priority and arrival takes the first in the list on a full
    tie, which its recordings show; real arrivals never tie, and where those of a scenario do,
    two requests could take each other's blocks in turn for ever, so that only replays do so.
    """
    members = num_running(engine, r)
    if engine.limits[0].order in (FCFS, FAIR):
        return members - 1
    worst = 0
    for place in range(1, members):
        if _is_worse(engine, running_at(engine, r, place), running_at(engine, r, worst)):
            worst = place
    return worst


@njit
def _is_worse(engine: Engine, a: int, b: int) -> bool:
    """Whether request `a`, later in the running list, is to be preempted before `b`."""
    key_a, key_b = key_now(engine, a), key_now(engine, b)
    x, y = engine.requests[a], engine.requests[b]
    if key_a != key_b:
        return bool(key_a > key_b)
    if x.arrival_s != y.arrival_s:
        return bool(x.arrival_s > y.arrival_s)
    return bool(engine.limits[0].order != BY_PRIORITY and x.id_rank > y.id_rank)
