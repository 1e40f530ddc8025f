"""The waiting queue of a replica: a heap, or under the order fair one for each tenant.

The order is (key, arrival, id).  What a key is depends on the order: fcfs gives out
increasing ones, and decreasing ones for those that a preemption puts in front.  The others
take it from the request, whenever it comes to the queue: nothing that it depends on
changes while the request waits, but the tenant's counter under fair, which `fair` keeps
apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit
from simulator.engine import fair
from simulator.engine.heap import merge, without_ended, without_root
from simulator.engine.state import (
    BY_DEADLINE,
    BY_REMAINING,
    FAIR,
    FCFS,
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
def _insert(engine: Engine, r: int, i: int) -> None:
    replica = engine.replicas[r]
    request = engine.requests[i]
    request.state = QUEUED
    request.left = NOBODY
    request.right = NOBODY
    if engine.limits[0].order == FAIR:
        fair.join(engine, r, i)
    else:
        replica.queue_root = merge(engine, replica.queue_root, i)
    replica.waiting += 1


@njit
def push(engine: Engine, r: int, i: int) -> None:
    """A request that arrives: to the end under fcfs, else to the place of its key."""
    replica = engine.replicas[r]
    order = engine.limits[0].order
    if order in (FCFS, FAIR):  # a tenant's own requests go in order of arrival
        engine.requests[i].key = replica.back_key
        replica.back_key += 1.0
    else:
        engine.requests[i].key = key_now(engine, i)
    _insert(engine, r, i)


@njit
def push_front(engine: Engine, r: int, i: int) -> None:
    """A request that was preempted: ahead of all under fcfs, else by its key."""
    give_front_key(engine, r, i)
    _insert(engine, r, i)


@njit
def give_front_key(engine: Engine, r: int, i: int) -> None:
    """Key of a request that is to come before all others of its queue."""
    replica = engine.replicas[r]
    order = engine.limits[0].order
    if order in (FCFS, FAIR):
        engine.requests[i].key = replica.front_key
        replica.front_key -= 1.0
    else:
        engine.requests[i].key = key_now(engine, i)


@njit
def pop(engine: Engine, r: int) -> int:
    """Take the head out of the queue, which must not be empty."""
    replica = engine.replicas[r]
    i = replica.queue_root
    if engine.limits[0].order == FAIR:
        fair.leave(engine, r)
    else:
        replica.queue_root = without_root(engine, i)
    replica.waiting -= 1
    drop_ended(engine, r)
    return int(i)


@njit
def drop_ended(engine: Engine, r: int) -> None:
    """Drop heads that ended while they waited, which `waiting` counts no more.

    Only asynchronous scheduling has them: preempted with their last token in flight.
    """
    replica = engine.replicas[r]
    if engine.limits[0].order == FAIR:
        fair.drop_ended(engine, r)
    else:
        replica.queue_root = without_ended(engine, replica.queue_root)


@njit
def oldest_arrival_s(engine: Engine, r: int) -> float:
    """Arrival of the request that has waited longest, which only under fcfs is the head.

    Walks the queue with the running row as the stack: only for a replica at which nobody
    runs and fewer wait than it has seats.
    """
    stack = engine.running[r]
    size = 1
    stack[0] = engine.replicas[r].queue_root
    if engine.limits[0].order == FAIR:
        size = 0
        for root in engine.shares.roots[r]:
            if root != NOBODY:
                stack[size] = root
                size += 1
    oldest_s = engine.requests[stack[0]].arrival_s
    while size > 0:
        size -= 1
        request = engine.requests[stack[size]]
        oldest_s = min(oldest_s, request.arrival_s)
        if request.left != NOBODY:
            stack[size] = request.left
            size += 1
        if request.right != NOBODY:
            stack[size] = request.right
            size += 1
    return float(oldest_s)
