"""Contiguous KV reservations: one extent per request, for all it may ever need.

What engines did before paging: `reserve_blocks` in one piece, taken first fit from the gaps
between the extents of others, or as a buddy system would.  How much that is, the prompt and
max_tokens or the real output, is decided before the run.  Whatever lies in gaps too small
for the next request is external fragmentation; whatever a request never fills is reserved
but unused.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.kv_cache import buddy

FULL = -1


@njit
def gap(engine: Engine, r: int, place: int) -> tuple[int, int]:
    """First block, and the one behind the last, of the gap before extent `place`."""
    extents = engine.extents[r]
    start = stop = 0
    if place > 0:
        start = extents[place - 1, 1]
    if place < engine.replicas[r].extents:
        stop = extents[place, 0]
    else:
        stop = engine.limits[0].usable_blocks
    return start, stop


@njit
def find_place(engine: Engine, r: int, blocks: int) -> tuple[int, int]:
    """Where `blocks` blocks fit: place in the sorted extents, FULL if nowhere; first block."""
    found, found_start, found_size = FULL, 0, 0
    for place in range(engine.replicas[r].extents + 1):
        start, stop = gap(engine, r, place)
        if engine.limits[0].buddy:
            while start < stop:  # the smallest piece that is large enough is split
                size = buddy.piece(start, stop)
                if size >= blocks and (found == FULL or size < found_size):
                    found, found_start, found_size = place, start, size
                start += size
        elif stop - start >= blocks:
            return place, start
    return found, found_start


@njit
def largest_gap(engine: Engine, r: int) -> int:
    """Blocks of the longest free piece: what a request can still get."""
    longest = 0
    for place in range(engine.replicas[r].extents + 1):
        start, stop = gap(engine, r, place)
        while start < stop:
            size = stop - start
            if engine.limits[0].buddy:
                size = buddy.piece(start, stop)
            longest = max(longest, size)
            start += size
    return longest


@njit
def reserve(engine: Engine, r: int, i: int, place: int, start: int) -> None:
    """Give request `i` its blocks from `start` on, in the gap before `place`."""
    extents = engine.extents[r]
    for k in range(engine.replicas[r].extents, place, -1):
        extents[k, 0] = extents[k - 1, 0]
        extents[k, 1] = extents[k - 1, 1]
    extents[place, 0] = start
    extents[place, 1] = start + engine.requests[i].reserve_blocks
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
