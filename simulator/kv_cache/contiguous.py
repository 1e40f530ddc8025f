"""Contiguous KV reservations: one extent per request, for all it may ever need.

What engines did before paging: prompt + max_tokens slots in one piece, taken first fit
from the gaps between the extents of others.  Whatever lies in gaps too small for the next
request is external fragmentation; whatever a request never fills is reserved but unused.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine

FULL = -1


@njit
def find_gap(engine: Engine, r: int, blocks: int) -> int:
    """Place in the sorted extents before which `blocks` blocks fit, FULL if nowhere."""
    extents = engine.extents[r]
    held = engine.replicas[r].extents
    end = 0
    for place in range(held):
        if extents[place, 0] - end >= blocks:
            return place
        end = extents[place, 1]
    if engine.limits[0].usable_blocks - end >= blocks:
        return int(held)
    return FULL


@njit
def largest_gap(engine: Engine, r: int) -> int:
    """Blocks of the longest free piece: what a request can still get."""
    extents = engine.extents[r]
    longest = 0
    end = 0
    for place in range(engine.replicas[r].extents):
        longest = max(longest, extents[place, 0] - end)
        end = extents[place, 1]
    return int(max(longest, engine.limits[0].usable_blocks - end))


@njit
def reserve(engine: Engine, r: int, i: int, blocks: int, place: int) -> None:
    """Give request `i` the gap before `place`, which `find_gap` found."""
    extents = engine.extents[r]
    start = 0
    if place > 0:
        start = extents[place - 1, 1]
    for k in range(engine.replicas[r].extents, place, -1):
        extents[k, 0] = extents[k - 1, 0]
        extents[k, 1] = extents[k - 1, 1]
    extents[place, 0] = start
    extents[place, 1] = start + blocks
    engine.replicas[r].extents += 1
    engine.requests[i].extent_start = start


@njit
def release(engine: Engine, r: int, i: int) -> None:
    """Give back the extent of request `i`."""
    extents = engine.extents[r]
    start = engine.requests[i].extent_start
    place = 0
    while extents[place, 0] != start:
        place += 1
    engine.replicas[r].extents -= 1
    for k in range(place, engine.replicas[r].extents):
        extents[k, 0] = extents[k + 1, 0]
        extents[k, 1] = extents[k + 1, 1]
