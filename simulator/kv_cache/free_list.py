"""The blocks that nobody uses, in the order in which they will be taken: a ring.

Blocks are taken from its front and given back to both ends; one that is found again leaves
its place empty.  A linked list would say where the next block is only when the one before has
been read; here the places of many are known at once, so that the memory answers for all
together.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.prefetch import prefetch
from simulator.engine.state import NOBODY, Engine

_AHEAD = 6  # blocks that will be taken soon are asked for


@njit
def take_first(engine: Engine, r: int) -> int:
    """Take the first block out of a list that is not empty."""
    replica, free = engine.replicas[r], engine.prefix.free[r]
    last_place = free.shape[0] - 1
    while free[replica.free_front & last_place] == NOBODY:
        replica.free_front += 1
    block = free[replica.free_front & last_place]
    replica.free_front += 1
    soon = free[(replica.free_front + _AHEAD) & last_place]
    if soon != NOBODY:
        prefetch(engine.prefix.blocks[r], soon)
    return int(block)


@njit
def remove(engine: Engine, r: int, block: int) -> None:
    """Take a block out of the list, wherever it is."""
    engine.prefix.free[r, engine.prefix.blocks[r, block].place] = NOBODY


@njit
def put_in_front(engine: Engine, r: int, block: int) -> None:
    """Give back a block that is to be taken first; there is room."""
    replica = engine.replicas[r]
    replica.free_front -= 1
    _put(engine, r, block, replica.free_front)


@njit
def put_at_end(engine: Engine, r: int, block: int) -> None:
    """Give back a block that is to be taken last; there is room."""
    replica = engine.replicas[r]
    _put(engine, r, block, replica.free_back)
    replica.free_back += 1


@njit
def _put(engine: Engine, r: int, block: int, place: int) -> None:
    place &= engine.prefix.free.shape[1] - 1
    engine.prefix.free[r, place] = block
    engine.prefix.blocks[r, block].place = place


@njit
def make_room(engine: Engine, r: int, blocks: int) -> None:
    """See that so many can be given back: close the gaps if they take too much of the ring."""
    replica, free = engine.replicas[r], engine.prefix.free[r]
    if replica.free_back - replica.free_front + blocks <= free.shape[0]:
        return
    last_place = free.shape[0] - 1
    first, back = replica.free_front, replica.free_back
    replica.free_back = first
    for place in range(first, back):
        block = free[place & last_place]
        if block != NOBODY:
            put_at_end(engine, r, block)
