"""The verb for prefixes in host memory, see `simulator.kv_cache.offload`."""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.engine.verbs import count_found, grow, seat
from simulator.kv_cache import prefix
from simulator.kv_cache.paged import blocks_for


@njit
def admit_copied(
    engine: Engine,
    r: int,
    cached: int,
    copied: int,
    tokens: int,
    reserve_tokens: int,
    spare_blocks: int,
) -> bool:
    """As `verbs.admit`, of a request whose prefix goes on in host memory.

    `copied` tokens behind the `cached` ones are copied from there, for which the step waits.
    """
    limits, replica = engine.limits[0], engine.replicas[r]
    found = cached + copied
    hits, copies = cached // limits.block_size, copied // limits.block_size
    needed = blocks_for(max(found + tokens, reserve_tokens), limits.block_size) - hits
    needed += prefix.free_among_found(engine, r, hits)
    if needed + spare_blocks > replica.free_blocks:
        return False
    i = seat(engine, r, found)
    prefix.share_found(engine, r, i, hits)
    prefix.take(engine, r, i, copies)
    prefix.register_full(engine, r, i, found)
    engine.requests[i].computed_tokens = found
    replica.kv_tokens += copied
    replica.loaded_blocks += copies
    replica.extra_gpu_s += copies * limits.copy_s_per_block
    count_found(engine, i, found)
    return grow(engine, r, i, tokens)
