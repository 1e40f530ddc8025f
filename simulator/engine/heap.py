"""A skew heap in the links of the request table, of which queues are made.

Sleator and Tarjan, "Self-adjusting heaps" (1986): O(log n) amortised for push and pop,
with two links per request and no storage of its own, so that replicas share the table.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import DONE, NOBODY, Engine


@njit
def comes_before(engine: Engine, a: int, b: int) -> bool:
    """Order of (key, arrival, id); no two requests are equal."""
    x = engine.requests[a]
    y = engine.requests[b]
    if x.key != y.key:
        return bool(x.key < y.key)
    if x.arrival_s != y.arrival_s:
        return bool(x.arrival_s < y.arrival_s)
    return bool(x.id_rank < y.id_rank)


@njit
def merge(engine: Engine, a: int, b: int) -> int:
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
def without_root(engine: Engine, root: int) -> int:
    """Root of what is left of a heap when its first request is taken out."""
    node = engine.requests[root]
    return merge(engine, node.left, node.right)


@njit
def without_ended(engine: Engine, root: int) -> int:
    """Root of a heap when the requests at its head that have ended are taken out."""
    while root != NOBODY and engine.requests[root].state == DONE:
        root = without_root(engine, root)
    return root
