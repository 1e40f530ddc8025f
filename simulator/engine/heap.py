"""A heap of waiting requests by (key, arrival, id), four children to a node.

What decides the order lies in the heap itself, so that in a long queue a push or a pop
touches a few neighbouring cache lines and no request (LaMarca and Ladner, "The influence of
caches on the performance of heaps", 1996).
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.prefetch import prefetch
from simulator.engine.state import NOBODY, Engine

_CHILDREN = 4


@njit
def _comes_before(engine: Engine, r: int, a: int, b: int) -> bool:
    """Order of two places of the heap; no two requests are equal."""
    x = engine.heaps[r, a]
    y = engine.heaps[r, b]
    if x.key != y.key:
        return bool(x.key < y.key)
    if x.arrival_s != y.arrival_s:
        return bool(x.arrival_s < y.arrival_s)
    return bool(x.id_rank < y.id_rank)


@njit
def insert(engine: Engine, r: int, i: int, key: float) -> None:
    """Add request `i`; the place behind the last entry is free for the one that moves."""
    heap = engine.heaps[r]
    replica = engine.replicas[r]
    new = replica.heap_size + 1
    heap[new].key = key
    heap[new].arrival_s = engine.requests[i].arrival_s
    heap[new].id_rank = engine.requests[i].id_rank
    heap[new].request = i
    hole = replica.heap_size
    replica.heap_size += 1
    _rise(engine, r, hole, new)


@njit
def remove_first(engine: Engine, r: int) -> None:
    """Take out the first entry of a heap that is not empty.

    Its place goes down to a leaf, which the last entry fills and mostly stays at: fewer
    comparisons than to ask at each level whether it fits (Wegener, "Bottom-up heapsort", 1993).
    """
    heap = engine.heaps[r]
    replica = engine.replicas[r]
    replica.heap_size -= 1
    last = replica.heap_size
    hole = 0
    child = _first_child(engine, r, hole, last)
    while child != NOBODY:
        heap[hole] = heap[child]
        if hole <= _CHILDREN:  # among the next to be served
            prefetch(engine.requests, heap[hole].request)
        hole = child
        child = _first_child(engine, r, hole, last)
    _rise(engine, r, hole, last)


@njit
def _rise(engine: Engine, r: int, hole: int, entry: int) -> None:
    """Put an entry, now at place `entry`, where a hole that rises as far as it may ends up."""
    heap = engine.heaps[r]
    while hole > 0:
        parent = (hole - 1) // _CHILDREN
        if not _comes_before(engine, r, entry, parent):
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = heap[entry]


@njit
def _first_child(engine: Engine, r: int, parent: int, size: int) -> int:
    """Place of the child that goes before its siblings; NOBODY below a leaf."""
    first = _CHILDREN * parent + 1
    if first + _CHILDREN > size:
        child = first if first < size else NOBODY
        for other in range(first + 1, size):
            if _comes_before(engine, r, other, child):
                child = other
        return child
    for ahead in range(0, _CHILDREN * _CHILDREN, 2):  # of their children, which come next
        prefetch(engine.heaps[r], _CHILDREN * first + 1 + ahead)
    a = first + 1 if _comes_before(engine, r, first + 1, first) else first
    b = first + 3 if _comes_before(engine, r, first + 3, first + 2) else first + 2
    return b if _comes_before(engine, r, b, a) else a
