"""The waiting queue of a replica: a list, one for each tenant, or a heap.

Under fcfs it is a list in order of arrival, in front of which preemptions put their
victims; under fair each tenant has such a list, and `fair` says whose turn it is; with LoRA
each adapter has one, and `adapters` says who may come.  The other orders keep a heap by
(key, arrival, id).  A request takes its key whenever it comes to the queue: nothing that it
depends on changes while the request waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import inlined, njit
from simulator.engine import fair, heap
from simulator.engine.state import (
    BY_DEADLINE,
    BY_REMAINING,
    DONE,
    FAIR,
    FCFS,
    NEVER,
    NOBODY,
    QUEUED,
    Engine,
)


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """An order of the queue, see `simulator.schedulers.orders`.

    Attributes
    ----------
    kind : FCFS ... FAIR of `simulator.engine.state`.
    key : (N,) float64 that all but FCFS and FAIR start from; less goes first,
        equal ones by arrival and then by name.
    """

    kind: int
    key: NDArray[np.float64] | None = None


ARRIVAL_ORDER = Order(FCFS)


@inlined
def is_by_arrival(engine: Engine) -> bool:
    """Whether the queue is made of lists: requests go in the order in which they come."""
    return bool(engine.limits[0].order in (FCFS, FAIR))


@njit
def key_now(engine: Engine, i: int) -> float:
    """How urgent request `i` is under an order by key, running or not: less is more."""
    order = engine.limits[0].order
    request = engine.requests[i]
    if order == BY_REMAINING:
        # Who outlives its prediction has at least one token to go.
        generated = request.known_tokens - request.prompt_tokens
        return float(max(request.order_key - generated, 1.0))
    if order == BY_DEADLINE:
        return float(request.arrival_s + request.order_key)
    return float(request.order_key)


@njit
def push(engine: Engine, r: int, i: int) -> None:
    """A request that arrives: to the end of its list, or to the place of its key."""
    _insert(engine, r, i, False)


@njit
def push_front(engine: Engine, r: int, i: int) -> None:
    """A request that was preempted: to the front of its list, or to the place of its key."""
    _insert(engine, r, i, True)


@njit
def _insert(engine: Engine, r: int, i: int, in_front: bool) -> None:
    engine.requests[i].state = QUEUED
    engine.replicas[r].waiting += 1
    if is_by_arrival(engine):
        lane = engine.requests[i].lane
        if engine.limits[0].order == FAIR:
            fair.lift(engine, r, lane)
        elif engine.lanes.shape[1] > 1:
            _number(engine, r, i, in_front)
        head = engine.lanes[r, lane].head
        if head == NOBODY or in_front:
            engine.requests[i].next = head
            engine.lanes[r, lane].head = i
        else:
            engine.requests[i].next = NOBODY
            engine.requests[engine.lanes[r, lane].tail].next = i
        if head == NOBODY or not in_front:
            engine.lanes[r, lane].tail = i
    else:
        heap.insert(engine, r, i, key_now(engine, i))
    _choose_head(engine, r)


@njit
def _number(engine: Engine, r: int, i: int, in_front: bool) -> None:
    """Give request `i` its place among those of all lanes."""
    replica = engine.replicas[r]
    if in_front:
        replica.front_key -= 1
        engine.requests[i].order_key = replica.front_key
    else:
        engine.requests[i].order_key = replica.back_key
        replica.back_key += 1


@njit
def pop(engine: Engine, r: int) -> int:
    """Take the head out of the queue, which must not be empty."""
    replica = engine.replicas[r]
    i = replica.queue_head
    if engine.limits[0].order == FAIR:
        fair.charge_prompt(engine, r, i)
    if is_by_arrival(engine):
        engine.lanes[r, engine.requests[i].lane].head = engine.requests[i].next
    else:
        heap.remove_first(engine, r)
    replica.waiting -= 1
    drop_ended(engine, r)
    return int(i)


@njit
def drop_ended(engine: Engine, r: int) -> None:
    """Drop who ended while waiting from the front; `waiting` counts them no more.

    Only asynchronous scheduling has them: preempted with their last token in flight.
    """
    if is_by_arrival(engine):
        for lane in range(engine.lanes.shape[1]):
            head = engine.lanes[r, lane].head
            if head != NOBODY and engine.requests[head].state == DONE:
                while head != NOBODY and engine.requests[head].state == DONE:
                    head = engine.requests[head].next
                engine.lanes[r, lane].head = head
                if head == NOBODY and engine.limits[0].order == FAIR:
                    engine.shares.last_left[r] = lane
    else:
        while (
            engine.replicas[r].heap_size > 0
            and engine.requests[engine.heaps[r, 0].request].state == DONE
        ):
            heap.remove_first(engine, r)
    _choose_head(engine, r)


@njit
def _choose_head(engine: Engine, r: int) -> None:
    """Say who is served next."""
    replica = engine.replicas[r]
    if engine.limits[0].order == FAIR:
        fair.choose(engine, r)
    elif engine.limits[0].order == FCFS:
        replica.queue_head = engine.lanes[r, 0].head
    else:
        replica.queue_head = engine.heaps[r, 0].request if replica.heap_size > 0 else NOBODY


@njit
def oldest_arrival_s(engine: Engine, r: int) -> float:
    """Arrival of the request that has waited longest; of a queue by key, visits all of it."""
    oldest_s = NEVER
    if is_by_arrival(engine):
        for lane in range(engine.lanes.shape[1]):
            head = engine.lanes[r, lane].head
            if head != NOBODY:
                oldest_s = min(oldest_s, engine.requests[head].arrival_s)
    for k in range(engine.replicas[r].heap_size):
        oldest_s = min(oldest_s, engine.heaps[r, k].arrival_s)
    return float(oldest_s)
