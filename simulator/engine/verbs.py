"""The verbs of a scheduler: the only code that changes what a replica holds.

A policy is a function ``compose(engine, r, now) -> int`` that walks the running list and
the waiting queue of replica `r` and calls these verbs; what it has given tokens to is the
next step.  It returns 1 if it would compose the same step again as long as every member
decodes and nothing arrives, ends or runs out of blocks (the engine then skips asking),
else 0.

Reading: `num_running`, `running_at`, `num_waiting`, `head`, `wanted_tokens`, and the
records themselves (``engine.requests[i].prompt_tokens``, ``engine.limits[0]``).
Writing: `admit`, `grow`, `preempt`, `sleep_until`; for static batches `seat`, `hold`,
`pad_batch`.  The engine itself delivers, finishes and releases.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine import log
from simulator.engine.queue import pop, push_front
from simulator.engine.state import CONTIGUOUS, RUNNING, Engine
from simulator.kv_cache import contiguous
from simulator.kv_cache.paged import blocks_for


@njit
def num_running(engine: Engine, r: int) -> int:
    """Requests that hold a seat."""
    return int(engine.replicas[r].running)


@njit
def running_at(engine: Engine, r: int, place: int) -> int:
    """Request at `place` of the running list, which is in order of admission."""
    return int(engine.running[r, place])


@njit
def num_waiting(engine: Engine, r: int) -> int:
    """Requests in the waiting queue."""
    return int(engine.replicas[r].waiting)


@njit
def head(engine: Engine, r: int) -> int:
    """First request of the waiting queue; -1 if it is empty."""
    return int(engine.replicas[r].queue_root)


@njit
def wanted_tokens(engine: Engine, i: int) -> int:
    """Known tokens of request `i` whose KV does not exist yet: 1 for a decode."""
    request = engine.requests[i]
    return int(request.known_tokens - request.computed_tokens)


@njit
def grow(engine: Engine, r: int, i: int, tokens: int) -> bool:
    """Put `tokens` more tokens of the running request `i` into the step.

    Takes the KV blocks they need.  Returns False, and changes nothing, when there are not
    enough; the chunk is never cut to what is free.
    """
    request = engine.requests[i]
    replica = engine.replicas[r]
    end = request.computed_tokens + tokens
    missing = blocks_for(end, engine.limits[0].block_size) - request.held_blocks
    if missing > 0:
        if missing > replica.free_blocks:
            return False
        replica.free_blocks -= missing
        request.held_blocks += missing
    request.computed_tokens = end
    request.scheduled_tokens += tokens
    replica.kv_tokens += tokens
    return True


@njit
def seat(engine: Engine, r: int) -> int:
    """Move the head of the queue to the end of the running list, without KV or tokens."""
    replica = engine.replicas[r]
    i = pop(engine, r)
    request = engine.requests[i]
    engine.running[r, replica.running] = i
    replica.running += 1
    request.state = RUNNING
    if request.preemptions == 0:
        request.admitted_s = replica.clock_s
        log.record(engine, log.ADMIT, r, i, 0, replica.clock_s)
    else:
        log.record(engine, log.RESUME, r, i, 0, replica.clock_s)
    return i


@njit
def admit(engine: Engine, r: int, tokens: int, reserve_tokens: int, spare_blocks: int) -> bool:
    """Admit the head of the queue with its first `tokens` tokens in this step.

    Parameters
    ----------
    tokens : size of its first chunk.
    reserve_tokens : the blocks of so many tokens must be free now.  Paged blocks are only
        looked at, those of the first chunk are taken; a contiguous allocator reserves the
        request's prompt and declared max_tokens whatever is asked here.
    spare_blocks : blocks that must stay free beside them (the watermark).

    Returns False, and changes nothing, when the blocks are not there.
    """
    limits = engine.limits[0]
    replica = engine.replicas[r]
    request = engine.requests[replica.queue_root]
    if limits.allocator == CONTIGUOUS:
        blocks = blocks_for(request.prompt_tokens + request.max_tokens, limits.block_size)
        place = contiguous.find_gap(engine, r, blocks)
        if place == contiguous.FULL or blocks + spare_blocks > replica.free_blocks:
            return False
        i = seat(engine, r)
        contiguous.reserve(engine, r, i, blocks, place)
        hold(engine, r, i, blocks)
    else:
        blocks = blocks_for(max(tokens, reserve_tokens), limits.block_size)
        if blocks + spare_blocks > replica.free_blocks:
            return False
        i = seat(engine, r)
    return grow(engine, r, i, tokens)


@njit
def hold(engine: Engine, r: int, i: int, blocks: int) -> None:
    """Reserve `blocks` free blocks for request `i` before it fills them."""
    engine.replicas[r].free_blocks -= blocks
    engine.requests[i].held_blocks += blocks


@njit
def release(engine: Engine, r: int, i: int) -> None:
    """Give back all KV of request `i`."""
    request = engine.requests[i]
    replica = engine.replicas[r]
    replica.free_blocks += request.held_blocks
    replica.kv_tokens -= request.computed_tokens
    if engine.limits[0].allocator == CONTIGUOUS:
        contiguous.release(engine, r, i)
    request.held_blocks = 0


@njit
def preempt(engine: Engine, r: int, i: int, beneficiary: int) -> int:
    """Take the running request `i` out of the step and back to the front of the queue.

    Its KV is lost and will be recomputed, its outputs are kept.  Returns the tokens that
    it had in this step, for the budget to get back.
    """
    request = engine.requests[i]
    replica = engine.replicas[r]
    refund = request.scheduled_tokens
    log.record(engine, log.PREEMPT, r, i, beneficiary, replica.clock_s)
    release(engine, r, i)
    request.recomputed_tokens += request.computed_tokens - refund
    request.computed_tokens = 0
    request.scheduled_tokens = 0
    request.preemptions += 1
    running = engine.running[r]
    place = 0
    while running[place] != i:
        place += 1
    replica.running -= 1
    for k in range(place, replica.running):
        running[k] = running[k + 1]
    replica.preempted += 1
    push_front(engine, r, i)
    return int(refund)


@njit
def sleep_until(engine: Engine, r: int, wake_s: float) -> None:
    """If this step stays empty, ask the policy again at `wake_s` at the latest."""
    engine.replicas[r].wake_s = wake_s


@njit
def pad_batch(engine: Engine, r: int, tokens: int) -> None:
    """Compute every row of the batch as if its prompt had `tokens` tokens."""
    engine.replicas[r].padded_tokens = tokens
