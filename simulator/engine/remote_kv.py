"""Verbs for prompts whose KV another replica has computed, as vLLM's KV connectors bring it.

Rules of vllm/v1/core/sched/scheduler.py (0.33) and its NIXL connector: the replica that
computed a prompt keeps its blocks when the request ends there, until they have been read.
The one that generates takes blocks for the whole prompt as it would admit the request, and
reads them while it goes on with others (WAITING_FOR_REMOTE_KVS).  A request whose KV has
come is admitted by the next step, ahead of the queue, and computes its last known token.
When each transfer ends is said from outside, see `simulator.cluster.kv_transfer`.
"""

from __future__ import annotations

from cost_models.jit import inlined, njit
from simulator.engine import log
from simulator.engine.advance import next_change
from simulator.engine.queue import pop
from simulator.engine.state import LOADING, NEVER, NOBODY, PREFIX, Engine
from simulator.engine.verbs import (
    count_found,
    grow,
    num_running,
    num_waiting,
    release,
    running_at,
    take_seat,
)
from simulator.kv_cache import prefix
from simulator.kv_cache.paged import blocks_for


@inlined
def is_offered(engine: Engine, i: int) -> bool:
    """Whether another replica still has the KV of request `i`'s prompt."""
    return bool(engine.remote.requests[i].offered)


@inlined
def num_loading(engine: Engine, r: int) -> int:
    """Requests that hold blocks to which their KV is on its way."""
    return int(engine.remote.pools[r].loading)


@njit
def claim(engine: Engine, r: int, cached: int, spare_blocks: int) -> bool:
    """Take blocks for the head of the queue and ask for its KV to be brought there.

    `cached` is what `cached_tokens` has just said: these tokens need not be brought.  Returns
    False, and changes nothing, when the blocks are not there with `spare_blocks` beside them.
    """
    limits, replica, remote = engine.limits[0], engine.replicas[r], engine.remote
    request = engine.requests[replica.queue_head]
    hits = cached // limits.block_size
    missing = blocks_for(request.known_tokens, limits.block_size) - hits
    if missing + prefix_blocks_taken(engine, r, hits) + spare_blocks > replica.free_blocks:
        return False
    i = pop(engine, r)
    request.state = LOADING
    if limits.allocator == PREFIX:
        prefix.share_found(engine, r, i, hits)
        prefix.take(engine, r, i, missing)
    else:
        replica.free_blocks -= missing
        request.held_blocks = missing
    request.computed_tokens = request.known_tokens - 1
    replica.kv_tokens += request.computed_tokens - cached
    count_found(engine, i, request.computed_tokens)
    log.record(engine, log.CLAIM, r, i, cached, replica.clock_s)
    entry = remote.requests[i]
    entry.offered = 0
    entry.claimed_s = replica.clock_s
    entry.arrived_s = NEVER
    entry.pulled_blocks = blocks_for(request.prompt_tokens, limits.block_size) - hits
    _append(engine, r, i)
    remote.claimed[remote.count[0]] = i
    remote.count[0] += 1
    return True


@inlined
def prefix_blocks_taken(engine: Engine, r: int, hits: int) -> int:
    """Blocks of the prefix just found that leave the free list when they are used."""
    return prefix.free_among_found(engine, r, hits) if hits > 0 else 0


@njit
def _append(engine: Engine, r: int, i: int) -> None:
    """Put request `i` at the end of those that load; their links are those of the inbox."""
    pool = engine.remote.pools[r]
    engine.requests[i].next = NOBODY
    if pool.loading == 0:
        pool.first = i
    else:
        engine.requests[pool.last].next = i
    pool.last = i
    pool.loading += 1


@njit
def admit_arrived(engine: Engine, r: int, now: float, budget: int) -> int:
    """Admit those whose KV has come, with their last known token; how many.

    In the order in which they claimed their blocks.  Sets the replica's alarm for the others,
    in case that nothing else is to do till then.
    """
    pool = engine.remote.pools[r]
    replica = engine.replicas[r]
    before, i, admitted = NOBODY, pool.first, 0
    while pool.loading > 0 and i != NOBODY:
        following = engine.requests[i].next
        arrived_s = engine.remote.requests[i].arrived_s
        has_seat = admitted < budget and num_running(engine, r) < engine.limits[0].max_num_seqs
        if arrived_s <= now and has_seat:
            if before == NOBODY:
                pool.first = following
            else:
                engine.requests[before].next = following
            if following == NOBODY:
                pool.last = before
            pool.loading -= 1
            _seat_arrived(engine, r, i)
            admitted += 1
        else:
            replica.wake_s = min(replica.wake_s, arrived_s)
            before = i
        i = following
    return admitted


@njit
def _seat_arrived(engine: Engine, r: int, i: int) -> None:
    request = engine.requests[i]
    take_seat(engine, r, i, request.computed_tokens)
    if engine.limits[0].allocator == PREFIX:
        prefix.register_full(engine, r, i, request.prompt_tokens)
    grow(engine, r, i, 1)


@njit
def blocks_of_unfinished_prompts(engine: Engine, r: int) -> int:
    """Blocks that those who run and still compute known tokens lack: not to be claimed.

    Only who was preempted computes a prompt here.  A claim cannot be preempted, so that
    without this rule claims could keep each other waiting for ever (vllm#44560).
    """
    missing = 0
    for place in range(num_running(engine, r)):
        request = engine.requests[running_at(engine, r, place)]
        if request.computed_tokens < request.known_tokens:
            blocks = blocks_for(request.known_tokens, engine.limits[0].block_size)
            missing += max(0, blocks - request.held_blocks)
    return missing


@njit
def next_claim_s(engine: Engine) -> float:
    """Earliest time at which a replica may claim blocks, as far as is known."""
    earliest_s = NEVER
    for r in range(engine.replicas.shape[0]):
        if num_waiting(engine, r) > 0:
            earliest_s = min(earliest_s, next_change(engine, r))
        elif engine.replicas[r].inbox_head != NOBODY:
            arrival_s = engine.requests[engine.replicas[r].inbox_head].arrival_s
            earliest_s = min(earliest_s, max(arrival_s, next_change(engine, r)))
    return float(earliest_s)


@njit
def next_change_s(engine: Engine) -> float:
    """Earliest time at which any replica commits or composes."""
    earliest_s = NEVER
    for r in range(engine.replicas.shape[0]):
        earliest_s = min(earliest_s, next_change(engine, r))
    return float(earliest_s)


@njit
def offer(engine: Engine, i: int, has_kv: bool, has_token: bool, now: float) -> None:
    """The prompt of request `i`, which is delivered next, has been computed elsewhere.

    Parameters
    ----------
    has_kv : it is still there.
    has_token : the first output token counts too, and the client has had it `now`.
    """
    engine.remote.requests[i].offered = has_kv
    engine.remote.requests[i].has_token = has_token
    if has_token:
        request = engine.requests[i]
        request.known_tokens += 1
        request.first_token_s = now
        request.last_token_s = now


@njit
def set_arrival(engine: Engine, i: int, arrived_s: float) -> None:
    """Say when the KV that request `i` claimed blocks for will be there."""
    engine.remote.requests[i].arrived_s = arrived_s
    replica = engine.replicas[engine.requests[i].replica]
    replica.wake_s = min(replica.wake_s, arrived_s)


@njit
def give_back(engine: Engine, i: int, now: float) -> None:
    """Release the KV of request `i`, which has ended and whose KV has been read."""
    r = engine.requests[i].replica
    release(engine, r, i)
    replica = engine.replicas[r]
    log.record(engine, log.GIVE_BACK, r, i, replica.free_blocks, now)
    if num_waiting(engine, r) > 0:  # it may be for these blocks
        replica.wake_s = min(replica.wake_s, now)
