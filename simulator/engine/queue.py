"""The waiting queue of a replica: a skew heap in the links of the request table.

Sleator and Tarjan, "Self-adjusting heaps" (1986): O(log n) amortised for push and pop,
with two links per request and no storage of its own, so that replicas share the table.
The order is (key, arrival, id); fcfs gives out increasing keys, and decreasing ones for
those that a preemption puts in front.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import DONE, NOBODY, QUEUED, Engine


@njit
def comes_before(engine: Engine, a: int, b: int) -> bool:
    """Order of the queue; no two requests are equal."""
    x = engine.requests[a]
    y = engine.requests[b]
    if x.key != y.key:
        return bool(x.key < y.key)
    if x.arrival_s != y.arrival_s:
        return bool(x.arrival_s < y.arrival_s)
    return bool(x.id_rank < y.id_rank)


@njit
def _merge(engine: Engine, a: int, b: int) -> int:
    """Root of the heap that holds both heaps."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if comes_before(engine, b, a):
        a, b = b, a
    root = a
    while True:  # a comes before b; b goes down the right spine, which swaps sides
        node = engine.requests[a]
        c = node.right
        node.right = node.left
        if c == NOBODY:
            node.left = b
            return root
        if comes_before(engine, b, c):
            c, b = b, c
        node.left = c
        a = c


@njit
def _insert(engine: Engine, r: int, i: int) -> None:
    replica = engine.replicas[r]
    request = engine.requests[i]
    request.state = QUEUED
    request.left = NOBODY
    request.right = NOBODY
    replica.queue_root = _merge(engine, replica.queue_root, i)
    replica.waiting += 1


@njit
def push(engine: Engine, r: int, i: int) -> None:
    """A request that arrives: to the end under fcfs, else to the place of its key."""
    replica = engine.replicas[r]
    request = engine.requests[i]
    if engine.limits[0].keyed_order:
        request.key = request.order_key
    else:
        request.key = replica.back_key
        replica.back_key += 1.0
    _insert(engine, r, i)


@njit
def push_front(engine: Engine, r: int, i: int) -> None:
    """A request that was preempted: ahead of all under fcfs, else by its key."""
    replica = engine.replicas[r]
    request = engine.requests[i]
    if engine.limits[0].keyed_order:
        request.key = request.order_key
    else:
        request.key = replica.front_key
        replica.front_key -= 1.0
    _insert(engine, r, i)


@njit
def pop(engine: Engine, r: int) -> int:
    """Take the head out of the queue, which must not be empty."""
    replica = engine.replicas[r]
    i = replica.queue_root
    request = engine.requests[i]
    replica.queue_root = _merge(engine, request.left, request.right)
    replica.waiting -= 1
    drop_ended(engine, r)
    return int(i)


@njit
def drop_ended(engine: Engine, r: int) -> None:
    """Drop heads that ended while they waited, which `waiting` counts no more.

    Only asynchronous scheduling has them: preempted with their last token in flight.
    """
    replica = engine.replicas[r]
    while replica.queue_root != NOBODY and engine.requests[replica.queue_root].state == DONE:
        ended = engine.requests[replica.queue_root]
        replica.queue_root = _merge(engine, ended.left, ended.right)
