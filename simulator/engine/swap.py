"""Verbs for preemption by swapping: a request's KV waits in host memory, none is lost.

vLLM V0's ``swap_in`` and ``swap_out`` (vllm/worker/cache_engine.py, mid-2024): whole blocks
go over the GPU's PCIe link on the stream that the model runs on, so that a step waits for
its copies before it computes; those who are out wait in a queue of their own.  With
``overlap_swap`` they have a stream of their own, as in that file in 2023, and a layer waits
for its own blocks only: a step takes the longer of its copies and its computing.
"""

from __future__ import annotations

from cost_models.jit import inlined, njit
from simulator.engine import log
from simulator.engine.queue import is_by_arrival, key_now
from simulator.engine.state import NOBODY, QUEUED, RUNNING, Engine
from simulator.engine.verbs import lose_seat, release
from simulator.kv_cache.paged import blocks_for


@inlined
def first_swapped(engine: Engine, r: int) -> int:
    """The swapped-out request that comes back next; -1 if there is none."""
    return int(engine.swap.pools[r].queue_head)


@inlined
def swapped_blocks(engine: Engine, i: int) -> int:
    """Blocks of request `i` in host memory."""
    return int(engine.swap.requests[i].held_blocks)


@njit
def swap_out(engine: Engine, r: int, i: int, beneficiary: int) -> bool:
    """Take the running request `i` out of the step and its KV to host memory.

    A token that it had in this step is not computed.  Returns False, and changes nothing,
    when host memory has no room for it.
    """
    request = engine.requests[i]
    replica = engine.replicas[r]
    kept_tokens = request.computed_tokens - request.scheduled_tokens
    blocks = blocks_for(kept_tokens, engine.limits[0].block_size)
    pool = engine.swap.pools[r]
    if blocks > pool.free_blocks:
        return False
    log.record(engine, log.SWAP_OUT, r, i, beneficiary, replica.clock_s)
    release(engine, r, i)
    request.computed_tokens = kept_tokens
    request.scheduled_tokens = 0
    lose_seat(engine, r, i)
    pool.free_blocks -= blocks
    engine.swap.requests[i].held_blocks = blocks
    _copy(engine, r, i, blocks)
    request.state = QUEUED
    _queue(engine, r, i)
    replica.waiting += 1
    return True


@njit
def _queue(engine: Engine, r: int, i: int) -> None:
    """Queue request `i` with those swapped out: in front of all, or by key, arrival and id."""
    before = NOBODY
    after = engine.swap.pools[r].queue_head
    while after != NOBODY and not is_by_arrival(engine) and _goes_before(engine, after, i):
        before = after
        after = engine.requests[after].next
    engine.requests[i].next = after
    if before == NOBODY:
        engine.swap.pools[r].queue_head = i
    else:
        engine.requests[before].next = i


@njit
def _goes_before(engine: Engine, a: int, b: int) -> bool:
    key_a, key_b = key_now(engine, a), key_now(engine, b)
    x, y = engine.requests[a], engine.requests[b]
    if key_a != key_b:
        return bool(key_a < key_b)
    if x.arrival_s != y.arrival_s:
        return bool(x.arrival_s < y.arrival_s)
    return bool(x.id_rank < y.id_rank)


@njit
def swap_in(engine: Engine, r: int) -> int:
    """Bring back the first of those swapped out; its blocks must be free.

    It has a seat again, and may get tokens in this very step.
    """
    pool = engine.swap.pools[r]
    replica = engine.replicas[r]
    i = pool.queue_head
    request = engine.requests[i]
    pool.queue_head = request.next
    replica.waiting -= 1
    blocks = engine.swap.requests[i].held_blocks
    pool.free_blocks += blocks
    engine.swap.requests[i].held_blocks = 0
    _copy(engine, r, i, blocks)
    engine.running[r, replica.running] = i
    replica.running += 1
    request.state = RUNNING
    request.held_blocks = blocks
    replica.free_blocks -= blocks
    replica.kv_tokens += request.computed_tokens
    log.record(engine, log.SWAP_IN, r, i, 0, replica.clock_s)
    return int(i)


@njit
def _copy(engine: Engine, r: int, i: int, blocks: int) -> None:
    """The step being composed waits for the copy of so many blocks."""
    seconds = blocks * engine.limits[0].copy_s_per_block
    engine.swap.requests[i].moved_blocks += blocks
    if engine.limits[0].overlap_swap:
        engine.replicas[r].beside_gpu_s += seconds
    else:
        engine.replicas[r].extra_gpu_s += seconds
        engine.replicas[r].transfer_s += seconds
