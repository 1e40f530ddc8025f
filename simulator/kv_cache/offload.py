"""A second tier for prefixes: blocks that the GPU evicts stay in host memory, in an LRU.

What `simulator.kv_cache.prefix` takes for something else it notes here; before the next
look-up the notes are taken over.  A block found in host memory is copied to a free one of
the GPU, keeps its place here and is used again, which makes it the newest.

Copies out go the other way of the link and on a stream of their own: no step waits for
them.  A step waits for its copies in.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import NOBODY, Engine
from simulator.kv_cache.prefix import block_hash


@njit
def take_over_evicted(engine: Engine, r: int) -> None:
    """Move what the GPU has evicted since the last call to host memory, oldest first."""
    notes = engine.offload.evicted[r]
    replica = engine.replicas[r]
    for k in range(max(0, replica.evicted_blocks - notes.shape[0]), replica.evicted_blocks):
        _keep(engine, r, notes[k % notes.shape[0]])
    replica.evicted_blocks = 0


@njit
def blocks_in_host(engine: Engine, r: int, i: int, first: int) -> int:
    """How many blocks of request `i`, from block `first` on, can be copied from host memory.

    `prefix.look_up` has just found those before; behind these, their places in host memory go
    to `found`.  At least the last known token must be computed.  Merely looking changes nothing.
    """
    places = engine.prefix.found[r]
    request = engine.requests[i]
    most = (request.known_tokens - 1) // engine.limits[0].block_size
    chain, segment, start = request.chain, request.segment, request.segment_start
    found = 0
    while first + found < most:
        chain, segment, start = block_hash(engine, i, first + found, chain, segment, start)
        entry = _find(engine, r, chain)
        if entry == NOBODY:
            break
        places[first + found] = entry
        found += 1
    return found


@njit
def renew(engine: Engine, r: int, first: int, count: int) -> None:
    """Make what `blocks_in_host` has just found, and was copied, the newest.

    The tail of a chain first: without its head it would be of no use.
    """
    for k in range(first + count - 1, first - 1, -1):
        _renew(engine, r, engine.prefix.found[r, k])


@njit
def _find(engine: Engine, r: int, hash_: int) -> int:
    entries = engine.offload.entries[r]
    entry = engine.offload.buckets[r, hash_ & (engine.offload.buckets.shape[1] - 1)]
    while entry != NOBODY and entries[entry].hash != hash_:
        entry = entries[entry].bucket_after
    return int(entry)


@njit
def _renew(engine: Engine, r: int, entry: int) -> None:
    """Make an entry the newest: the one before the anchor of the ring."""
    entries = engine.offload.entries[r]
    anchor = entries.shape[0] - 1
    row = entries[entry]
    entries[row.older].newer = row.newer
    entries[row.newer].older = row.older
    row.older = entries[anchor].older
    row.newer = anchor
    entries[row.older].newer = entry
    entries[anchor].older = entry


@njit
def _keep(engine: Engine, r: int, hash_: int) -> None:
    """Have a block in host memory as the newest, in the place of the oldest if it is new."""
    entry = _find(engine, r, hash_)
    if entry == NOBODY:
        entries = engine.offload.entries[r]
        buckets = engine.offload.buckets[r]
        entry = entries[entries.shape[0] - 1].newer  # behind the anchor comes the oldest
        row = entries[entry]
        if row.used:
            _drop(engine, r, entry)
        bucket = hash_ & (buckets.shape[0] - 1)
        row.hash = hash_
        row.used = 1
        row.bucket_after = buckets[bucket]
        buckets[bucket] = entry
        engine.replicas[r].stored_blocks += 1
    _renew(engine, r, entry)


@njit
def _drop(engine: Engine, r: int, entry: int) -> None:
    """Take an entry out of its bucket."""
    entries = engine.offload.entries[r]
    buckets = engine.offload.buckets[r]
    bucket = entries[entry].hash & (buckets.shape[0] - 1)
    if buckets[bucket] == entry:
        buckets[bucket] = entries[entry].bucket_after
        return
    before = buckets[bucket]
    while entries[before].bucket_after != entry:
        before = entries[before].bucket_after
    entries[before].bucket_after = entries[entry].bucket_after
