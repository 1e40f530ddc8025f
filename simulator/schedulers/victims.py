"""Who loses the seat when a running request finds no KV block."""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.engine.verbs import num_running, running_at


@njit
def choose_victim(engine: Engine, r: int) -> int:
    """Place in the running list of the request to preempt.

    fcfs: the latest admitted.  An order by key (priority): the largest (key, arrival), and
    on a full tie the first in the list, as vLLM's ``max`` over it does.
    """
    members = num_running(engine, r)
    if not engine.limits[0].keyed_order:
        return members - 1
    worst = 0
    for place in range(1, members):
        a = engine.requests[running_at(engine, r, place)]
        b = engine.requests[running_at(engine, r, worst)]
        if a.order_key > b.order_key or (a.order_key == b.order_key and a.arrival_s > b.arrival_s):
            worst = place
    return worst
