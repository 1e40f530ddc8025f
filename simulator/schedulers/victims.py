"""Who loses the seat when a running request finds no KV block."""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.queue import key_now
from simulator.engine.state import FCFS, Engine
from simulator.engine.verbs import num_running, running_at


@njit
def choose_victim(engine: Engine, r: int) -> int:
    """Place in the running list of the request to preempt.

    fcfs: the latest admitted.  Another order: the largest (key, arrival), the key being what
    it would be in the queue now, and on a full tie the first in the list, as vLLM's ``max``
    over it does under priority.
    """
    members = num_running(engine, r)
    if engine.limits[0].order == FCFS:
        return members - 1
    worst = 0
    worst_key = key_now(engine, r, running_at(engine, r, 0))
    worst_s = engine.requests[running_at(engine, r, 0)].arrival_s
    for place in range(1, members):
        i = running_at(engine, r, place)
        key = key_now(engine, r, i)
        arrival_s = engine.requests[i].arrival_s
        if key > worst_key or (key == worst_key and arrival_s > worst_s):
            worst, worst_key, worst_s = place, key, arrival_s
    return worst
