"""The verbs of a scheduler: the only code that changes what a replica holds.

A policy is a function ``compose(engine, r, now) -> int`` that walks the running list and
the waiting queue of replica `r` and calls these verbs; what it has given tokens to is the
next step.  It returns 1 if it would compose the same step again as long as every member
decodes and nothing arrives, ends or runs out of blocks (the engine then skips asking),
else 0.

Reading: `num_running`, `running_at`, `num_waiting`, `head`, `cached_tokens`,
`wanted_tokens`, and the records themselves (``engine.requests[i].prompt_tokens``,
``engine.limits[0]``).
Writing: `admit`, `grow`, `preempt`, `retract`, `sleep_until`; for static batches `seat`, `hold`,
`pad_batch`; `simulator.engine.swap`, `offload` and `speculation` have those for KV in
host memory and for drafts.  The engine itself
delivers, finishes and releases.
"""

from __future__ import annotations

from cost_models.jit import inlined, njit
from simulator.engine import log
from simulator.engine.queue import pop, push, push_front
from simulator.engine.state import CONTIGUOUS, NEVER, PREFIX, RUNNING, Engine
from simulator.kv_cache import contiguous, prefix
from simulator.kv_cache.paged import blocks_for


@inlined
def num_running(engine: Engine, r: int) -> int:
    """Requests that hold a seat."""
    return int(engine.replicas[r].running)


@inlined
def running_at(engine: Engine, r: int, place: int) -> int:
    """Request at `place` of the running list, which is in order of admission."""
    return int(engine.running[r, place])


@inlined
def num_waiting(engine: Engine, r: int) -> int:
    """Requests in the waiting queue."""
    return int(engine.replicas[r].waiting)


@inlined
def head(engine: Engine, r: int) -> int:
    """First request of the waiting queue; -1 if it is empty."""
    return int(engine.replicas[r].queue_head)


@inlined
def wanted_tokens(engine: Engine, i: int) -> int:
    """Known tokens of request `i` whose KV does not exist yet: 1 for a decode.

    Under asynchronous scheduling a token that a running step will sample counts as known;
    0 means that the last one is already on its way.  Under pipeline parallelism it is known
    when its step has ended.
    """
    request = engine.requests[i]
    if request.in_flight > 0 and engine.limits[0].one_in_flight:
        return 0
    if request.known_tokens >= request.limit_tokens:
        return 0
    return int(request.known_tokens - request.computed_tokens)


@inlined
def grow(engine: Engine, r: int, i: int, tokens: int) -> bool:
    """Put `tokens` more tokens of the running request `i` into the step.

    Takes the KV blocks they need.  Returns False, and changes nothing, when there are not
    enough; the chunk is never cut to what is free.
    """
    request = engine.requests[i]
    replica = engine.replicas[r]
    block_size = engine.limits[0].block_size
    end = request.computed_tokens + tokens
    if end > request.held_blocks * block_size and not take_blocks(engine, r, i, end):
        return False
    request.computed_tokens = end
    request.scheduled_tokens += tokens
    replica.kv_tokens += tokens
    if (
        engine.limits[0].allocator == PREFIX
        and end >= (request.full_blocks + 1) * block_size
        and not engine.limits[0].hash_when_computed
    ):
        prefix.register_full(engine, r, i, min(end, request.known_tokens - request.in_flight))
    return True


@njit
def take_blocks(engine: Engine, r: int, i: int, tokens: int) -> bool:
    """Blocks for the first `tokens` tokens of request `i`; False if they are not there."""
    request = engine.requests[i]
    replica = engine.replicas[r]
    missing = blocks_for(tokens, engine.limits[0].block_size) - request.held_blocks
    if missing > replica.free_blocks:
        return False
    if engine.limits[0].allocator == PREFIX:
        prefix.take(engine, r, i, missing)
    else:
        replica.free_blocks -= missing
        request.held_blocks += missing
    return True


@njit
def cached_tokens(engine: Engine, r: int) -> int:
    """Leading tokens of the head of the queue whose KV is in the prefix cache."""
    if engine.limits[0].allocator != PREFIX:
        return 0
    i = engine.replicas[r].queue_head
    return int(prefix.look_up(engine, r, i) * engine.limits[0].block_size)


@njit
def seat(engine: Engine, r: int, cached: int) -> int:
    """Move the head of the queue to the end of the running list, without KV or tokens.

    `cached`: tokens of it that the prefix cache has.
    """
    i = pop(engine, r)
    take_seat(engine, r, i, cached)
    return i


@njit
def take_seat(engine: Engine, r: int, i: int, cached: int) -> None:
    """Put request `i`, which is in no queue, at the end of the running list."""
    replica = engine.replicas[r]
    request = engine.requests[i]
    engine.running[r, replica.running] = i
    replica.running += 1
    request.state = RUNNING
    if request.preemptions == 0:
        request.admitted_s = replica.clock_s
        log.record(engine, log.ADMIT, r, i, cached, replica.clock_s)
    else:
        log.record(engine, log.RESUME, r, i, cached, replica.clock_s)


@njit
def admit(
    engine: Engine, r: int, cached: int, tokens: int, reserve_tokens: int, spare_blocks: int
) -> bool:
    """Admit the head of the queue with its first chunk in this step.

    Parameters
    ----------
    cached : what `cached_tokens` has just said; these tokens are not computed again.
    tokens : size of the first chunk, which follows them.
    reserve_tokens : blocks for so many tokens of the request must be there now.  They are
        only looked at, those of the first chunk are taken; a contiguous allocator reserves
        what the request may come to whatever is asked here.
    spare_blocks : blocks that must stay free beside them (the watermark).

    Returns False, and changes nothing, when the blocks are not there.
    """
    limits = engine.limits[0]
    replica = engine.replicas[r]
    if limits.allocator == CONTIGUOUS:
        return _admit_reserved(engine, r, tokens, spare_blocks)
    request = engine.requests[replica.queue_head]
    hits = cached // limits.block_size
    needed = blocks_for(max(cached + tokens, reserve_tokens), limits.block_size) - hits
    if hits > 0:
        needed += prefix.free_among_found(engine, r, hits)
    if needed + spare_blocks > replica.free_blocks:
        return False
    i = seat(engine, r, cached)
    if limits.allocator == PREFIX:
        prefix.share_found(engine, r, i, hits)
        request.computed_tokens = cached
        count_found(engine, i, cached)
    return grow(engine, r, i, tokens)


@inlined
def count_found(engine: Engine, i: int, cached: int) -> None:
    """Count tokens found in the prefix cache: less to recompute, or computed by others."""
    request = engine.requests[i]
    found_again = min(cached, request.recomputed_tokens)  # of what a preemption lost
    request.recomputed_tokens -= found_again
    request.cached_tokens += cached - found_again


@njit
def _admit_reserved(engine: Engine, r: int, tokens: int, spare_blocks: int) -> bool:
    """`admit` where all that the head may ever need is reserved in one piece."""
    replica = engine.replicas[r]
    blocks = engine.requests[replica.queue_head].reserve_blocks
    place, start = contiguous.find_place(engine, r, blocks)
    if place == contiguous.FULL or blocks + spare_blocks > replica.free_blocks:
        return False
    i = seat(engine, r, 0)
    contiguous.reserve(engine, r, i, place, start)
    hold(engine, r, i, blocks)
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
    replica.kv_tokens -= request.computed_tokens
    if engine.limits[0].allocator == PREFIX:
        prefix.release(engine, r, i)
    else:
        replica.free_blocks += request.held_blocks
    if engine.limits[0].allocator == CONTIGUOUS:
        contiguous.release(engine, r, i)
    request.held_blocks = 0


@njit
def preempt(engine: Engine, r: int, i: int, beneficiary: int) -> int:
    """Take the running request `i` out of the step and back to the front of the queue.

    Its KV is lost and will be recomputed, its outputs are kept.  Returns the tokens that
    it had in this step, for the budget to get back.
    """
    refund = _lose_kv(engine, r, i, beneficiary)
    push_front(engine, r, i)
    return refund


@njit
def retract(engine: Engine, r: int, i: int) -> None:
    """Like `preempt`, but under fcfs to the end of the queue."""
    _lose_kv(engine, r, i, i)
    push(engine, r, i)


@njit
def _lose_kv(engine: Engine, r: int, i: int, beneficiary: int) -> int:
    """Take the KV and the seat of request `i`; the tokens that it had in this step."""
    request = engine.requests[i]
    refund = request.scheduled_tokens
    log.record(engine, log.PREEMPT, r, i, beneficiary, engine.replicas[r].clock_s)
    if engine.limits[0].allocator == PREFIX:
        prefix.make_findable(engine, r, i)
    release(engine, r, i)
    request.recomputed_tokens += request.computed_tokens - refund
    request.computed_tokens = 0
    request.scheduled_tokens = 0
    lose_seat(engine, r, i)
    return int(refund)


@njit
def lose_seat(engine: Engine, r: int, i: int) -> None:
    """Take request `i` off the running list because others need its KV blocks."""
    replica = engine.replicas[r]
    request = engine.requests[i]
    running = engine.running[r]
    place = 0
    while running[place] != i:
        place += 1
    replica.running -= 1
    for k in range(place, replica.running):
        running[k] = running[k + 1]
    request.preemptions += 1
    if request.lost_s == NEVER:
        request.lost_s = replica.clock_s
    replica.preempted += 1


@njit
def sleep_until(engine: Engine, r: int, wake_s: float) -> None:
    """If this step stays empty, ask the policy again at `wake_s` at the latest."""
    engine.replicas[r].wake_s = wake_s


@njit
def pad_batch(engine: Engine, r: int, tokens: int) -> None:
    """Compute every row of the batch as if its prompt had `tokens` tokens."""
    engine.replicas[r].padded_tokens = tokens
