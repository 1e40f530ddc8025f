"""Paged KV blocks with an identity: automatic prefix caching as vLLM V1 does it.

Rules of vllm/v1/core/{kv_cache_manager,block_pool}.py (0.33).  A full block is known by a
hash over its tokens and all before them, from the step that schedules its last token.  A
released block keeps its hash and its place in the pool until it is taken for something
else: blocks are taken from the front of the free list, those that never had a hash are
released to its front, hashed ones to its end, the tail of a chain before its head, which
makes the list an LRU.

A block that only one request can ever look for (see `shareable`) has a hash only after a
preemption of that request; till then to be full is all that matters of it, for its place
in the list.

A token is (tag, position in its segment).  Hashes are 64 bits wide: among the 10^7 blocks
of a large run a collision has a probability of 10^-5.
"""

from __future__ import annotations

import numpy as np

from cost_models.jit import inlined, njit
from simulator.engine.prefetch import prefetch
from simulator.engine.state import NOBODY, Engine
from simulator.kv_cache import free_list

_MULTIPLIER = np.int64(-7046029254386353131)  # 2^64 / golden ratio, as in splitmix64
_SHIFT = np.int64(29)

ALL_BLOCKS = 2**31 - 1

_AHEAD = 16  # of a table that is given back: its blocks are asked for so many before


@njit
def mix(chain: int, value: int) -> int:
    """Fold a value into a hash; wraps modulo 2^64."""
    mixed = (np.int64(chain) ^ np.int64(value)) * _MULTIPLIER
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    return int(mixed ^ (mixed >> _SHIFT))


@njit
def own_tag(i: int) -> int:
    """Tag of what only request `i` has in its prompt."""
    return -2 * i - 1


@njit
def output_tag(i: int) -> int:
    """Tag of the tokens that request `i` generates."""
    return -2 * i - 2


@njit
def block_hash(
    engine: Engine, i: int, block: int, chain: int, segment: int, start: int
) -> tuple[int, int, int]:
    """Hash of block number `block` of request `i`.

    Parameters
    ----------
    chain : hash of the block before it.
    segment, start : segment in which the block before it ended, and that segment's position
        in the prompt: a cursor that only moves forward.

    Returns
    -------
    (chain, segment, start) for the block after it.
    """
    request = engine.requests[i]
    segments = engine.prefix.segments
    last_segment = request.first_segment + request.num_segments
    position = block * engine.limits[0].block_size
    end = position + engine.limits[0].block_size
    while position < end:
        if segment < last_segment:
            stop = start + segments[segment, 1]
            if stop <= position:
                start = stop
                segment += 1
                continue
            tag = segments[segment, 0]
            origin = start
        elif position < request.prompt_tokens:
            tag = own_tag(i)
            origin = start
            stop = request.prompt_tokens
        else:
            tag = output_tag(i)
            origin = request.prompt_tokens
            stop = end
        length = min(end, stop) - position
        chain = mix(mix(mix(chain, tag), position - origin), length)
        position += length
    return chain, segment, start


@njit
def _bucket(engine: Engine, hash_: int) -> int:
    return int(hash_ & (engine.prefix.buckets.shape[1] - 1))


@njit
def _find(engine: Engine, r: int, hash_: int) -> int:
    """The block that was registered first under this hash, NOBODY if there is none."""
    blocks = engine.prefix.blocks[r]
    block = engine.prefix.buckets[r, _bucket(engine, hash_), 0]
    while block != NOBODY and blocks[block].hash != hash_:
        block = blocks[block].bucket_after
    return int(block)


@njit
def _register(engine: Engine, r: int, block: int, hash_: int) -> None:
    """Make a full block findable, behind those that already have its hash."""
    blocks = engine.prefix.blocks[r]
    bucket = engine.prefix.buckets[r, _bucket(engine, hash_)]
    row = blocks[block]
    row.hash = hash_
    row.hashed = 1
    row.bucket_before = bucket[1]
    row.bucket_after = NOBODY
    if bucket[1] == NOBODY:
        bucket[0] = block
    else:
        blocks[bucket[1]].bucket_after = block
    bucket[1] = block


@njit
def _forget(engine: Engine, r: int, block: int) -> None:
    """Drop the hash of a block that is taken for something else."""
    blocks = engine.prefix.blocks[r]
    row = blocks[block]
    bucket = engine.prefix.buckets[r, _bucket(engine, row.hash)]
    if row.bucket_before == NOBODY:
        bucket[0] = row.bucket_after
    else:
        blocks[row.bucket_before].bucket_after = row.bucket_after
    if row.bucket_after == NOBODY:
        bucket[1] = row.bucket_before
    else:
        blocks[row.bucket_after].bucket_before = row.bucket_before
    row.hashed = 0
    notes = engine.offload.evicted
    if notes.shape[0] > 0:
        replica = engine.replicas[r]
        notes[r, replica.evicted_blocks % notes.shape[1]] = row.hash
        replica.evicted_blocks += 1


@njit
def look_up(engine: Engine, r: int, i: int) -> int:
    """How many leading blocks of request `i` are cached; their ids go to `found`.

    At least the last known token must be computed, so that the block that holds it never
    counts.  Changes nothing but the request's cursor, which `share_found` starts from.
    """
    request = engine.requests[i]
    most = (request.known_tokens - 1) // engine.limits[0].block_size
    most = min(most, request.shareable_blocks)
    found = engine.prefix.found[r]
    chain = 0
    segment = request.first_segment
    start = 0
    hits = 0
    while True:
        request.chain = chain
        request.segment = segment
        request.segment_start = start
        if hits == most:
            break
        chain, segment, start = block_hash(engine, i, hits, chain, segment, start)
        block = _find(engine, r, chain)
        if block == NOBODY:
            break
        found[hits] = block
        hits += 1
    return hits


@njit
def free_among_found(engine: Engine, r: int, hits: int) -> int:
    """How many of the blocks just found nobody holds: using them takes them off the list."""
    found = engine.prefix.found[r]
    free = 0
    for k in range(hits):
        if engine.prefix.blocks[r, found[k]].users == 0:
            free += 1
    return free


@njit
def share_found(engine: Engine, r: int, i: int, hits: int) -> None:
    """Start the block table of request `i`, just seated, with the blocks just found.

    Tokens in blocks that others hold are counted already in the replica's `kv_tokens`.
    """
    request = engine.requests[i]
    if hits == 0:
        request.chain = 0
        request.segment = request.first_segment
        request.segment_start = 0
    replica = engine.replicas[r]
    request.seat = engine.prefix.seats[r, replica.seated]
    replica.seated += 1
    table = engine.prefix.tables[r, request.seat]
    found = engine.prefix.found[r]
    for k in range(hits):
        row = engine.prefix.blocks[r, found[k]]
        if row.users == 0:
            free_list.remove(engine, r, found[k])
            replica.free_blocks -= 1
            replica.kv_tokens += engine.limits[0].block_size
        row.users += 1
        table[k] = found[k]
    request.held_blocks = hits
    request.full_blocks = hits


@njit
def take(engine: Engine, r: int, i: int, count: int) -> None:
    """Extend the block table of request `i` by `count` blocks from the front of the list."""
    request = engine.requests[i]
    blocks = engine.prefix.blocks[r]
    table = engine.prefix.tables[r, request.seat]
    for k in range(request.held_blocks, request.held_blocks + count):
        block = free_list.take_first(engine, r)
        if blocks[block].hashed:
            _forget(engine, r, block)
        blocks[block].users = 1
        table[k] = block
    request.held_blocks += count
    engine.replicas[r].free_blocks -= count


@njit
def register_full(engine: Engine, r: int, i: int, tokens: int) -> None:
    """Give a hash to the blocks of request `i` that its first `tokens` tokens fill.

    Those that only the request itself could look for get theirs when it is preempted.
    """
    request = engine.requests[i]
    full = tokens // engine.limits[0].block_size
    if request.full_blocks < min(full, request.shareable_blocks):
        _register_up_to(engine, r, i, min(full, request.shareable_blocks))
    request.full_blocks = max(request.full_blocks, full)


@njit
def make_findable(engine: Engine, r: int, i: int) -> None:
    """Give a hash to all full blocks of request `i`, from now on: it will look for them."""
    request = engine.requests[i]
    full = request.full_blocks
    if request.shareable_blocks < full:
        request.full_blocks = request.shareable_blocks
        _register_up_to(engine, r, i, full)
    request.shareable_blocks = ALL_BLOCKS


@njit
def _register_up_to(engine: Engine, r: int, i: int, full: int) -> None:
    request = engine.requests[i]
    table = engine.prefix.tables[r, request.seat]
    while request.full_blocks < full:
        block = request.full_blocks
        request.chain, request.segment, request.segment_start = block_hash(
            engine, i, block, request.chain, request.segment, request.segment_start
        )
        _register(engine, r, table[block], request.chain)
        request.full_blocks += 1


@njit
def release(engine: Engine, r: int, i: int) -> None:
    """Give back the block table of request `i`.

    Full blocks go to the end of the list, the tail of the chain before its head; others to
    its front, so that the tail will be taken first.
    """
    request = engine.requests[i]
    replica = engine.replicas[r]
    table = engine.prefix.tables[r, request.seat]
    free_list.make_room(engine, r, request.held_blocks)
    last_full = request.held_blocks
    if not engine.limits[0].unhashed_last:
        last_full = min(request.full_blocks, last_full)
    for k in range(last_full, request.held_blocks):
        if _give_up(engine, r, table[k]):
            free_list.put_in_front(engine, r, table[k])
    for k in range(last_full - 1, -1, -1):
        if k >= _AHEAD:
            prefetch(engine.prefix.blocks[r], table[k - _AHEAD])
        if _give_up(engine, r, table[k]):
            free_list.put_at_end(engine, r, table[k])
    replica.seated -= 1
    engine.prefix.seats[r, replica.seated] = request.seat


@inlined
def _give_up(engine: Engine, r: int, block: int) -> bool:
    """One user less; whether it was the last, else others still hold these tokens."""
    replica, row = engine.replicas[r], engine.prefix.blocks[r, block]
    row.users -= 1
    if row.users > 0:
        replica.kv_tokens += engine.limits[0].block_size
        return False
    replica.free_blocks += 1
    return True


@njit
def forget_behind(engine: Engine, r: int, i: int, tokens: int) -> None:
    """Have what request `i`, about to be released, holds behind `tokens` tokens never found."""
    request = engine.requests[i]
    table = engine.prefix.tables[r, request.seat]
    while request.full_blocks * engine.limits[0].block_size > tokens:
        request.full_blocks -= 1
        block = engine.prefix.blocks[r, table[request.full_blocks]]
        if block.hashed and block.users == 1:
            _forget(engine, r, table[request.full_blocks])
