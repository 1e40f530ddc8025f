"""Coasting: many pure-decode steps at once, in the same order of float operations.

While every member of the batch decodes and nothing arrives, ends or runs out of blocks, a
policy composes the same step again and again.  Only the summed context and the clock
change, so the steps are priced one by one but the members are visited once.
"""

from __future__ import annotations

from cost_models.jit import inlined, njit
from cost_models.kernel import step_time
from simulator.engine import fair
from simulator.engine.state import FAIR, NOBODY, NUM_STEPS, PREFIX, Engine
from simulator.engine.step import start_flight
from simulator.kv_cache.paged import blocks_for
from simulator.kv_cache.prefix import register_full, take


@njit
def coast(engine: Engine, r: int, until: float) -> None:
    """Commit the oldest pure-decode step and those after it that are alike.

    Stops with as many steps in flight as there were: the oldest ends after `until`, or
    somebody must look at its end (a request ends, an arrival is due, blocks run out, the
    log is full).
    """
    limits = engine.limits[0]
    replica = engine.replicas[r]
    members = replica.running
    place = replica.oldest
    newest = (place + limits.depth - 1) % 2
    if (
        not limits.coast
        or replica.pending < limits.depth
        or replica.padded_tokens > 0
        or (limits.order == FAIR and replica.waiting > 0 and members < limits.max_num_seqs)
        or not _only_decodes(engine, r, place)
        or not _only_decodes(engine, r, newest)
    ):
        return
    next_arrival_s = until
    if replica.inbox_head != NOBODY:
        next_arrival_s = min(until, engine.requests[replica.inbox_head].arrival_s)
    if not engine.flights[r, place].end_s < next_arrival_s:
        return
    steps_left, max_context = _survey(engine, r)
    if steps_left <= 0:
        return

    block_size = limits.block_size
    context_tokens = engine.flights[r, newest].context_tokens
    largest_gap_blocks = engine.flights[r, newest].largest_gap_blocks
    steps = 0
    while steps < steps_left:
        step = engine.flights[r, place]
        if not step.end_s < next_arrival_s:
            break
        # Members whose last block is full now need one more to go on.
        phase = (block_size - steps % block_size) % block_size
        needed = engine.phases[r, phase]
        if needed > replica.free_blocks:
            break
        steps += 1
        now = step.end_s
        step.gap_s = now - replica.committed_s
        step.streaming_seqs = members
        engine.steps[engine.counters[NUM_STEPS]] = step
        engine.counters[NUM_STEPS] += 1
        replica.committed_s = now
        replica.clock_s = now

        # The next step takes the place of the one just committed.
        if limits.allocator == PREFIX:
            _extend_tables(engine, r, steps, block_size)
        else:
            replica.free_blocks -= needed
        max_context += 1
        context_tokens += members
        largest_gap_blocks -= needed
        replica.kv_tokens += members
        step.context_tokens = context_tokens
        step.kv_tokens = replica.kv_tokens
        step.kv_blocks = limits.usable_blocks - replica.free_blocks
        step.largest_gap_blocks = largest_gap_blocks
        step.running = members
        step.waiting = replica.waiting
        step.gpu_s, step.host_s = step_time(
            engine.cost, members, members, context_tokens, max_context, 0, 0, 0.0, 0, members
        )
        start_flight(engine, r, place, now)
        place = (place + limits.depth - 1) % 2
    if steps == 0:
        return
    replica.oldest = place
    if limits.order == FAIR:
        fair.charge_steps(engine, r, steps)
    for k in range(members):
        request = engine.requests[engine.running[r, k]]
        request.computed_tokens += steps
        request.known_tokens += steps
        request.last_token_s = replica.committed_s
        request.held_blocks = max(
            request.held_blocks, blocks_for(request.computed_tokens, block_size)
        )


@inlined
def _only_decodes(engine: Engine, r: int, place: int) -> bool:
    """Whether the flight gives one more token to everybody who runs, and nothing else."""
    step = engine.flights[r, place]
    members = engine.replicas[r].running
    return bool(
        step.scheduled_tokens == members
        and step.decode_seqs == members
        and step.sampled_tokens == members
        and step.preempted == 0
    )


@njit
def _survey(engine: Engine, r: int) -> tuple[int, int]:
    """Visit the members once: how many steps they can go alike, and the longest context.

    Counts in `phases` how many members are at each place of their last block; where blocks
    have an identity, also lists them, in running order.
    """
    replica = engine.replicas[r]
    block_size = engine.limits[0].block_size
    phases = engine.phases[r]
    phases[:] = 0
    prefix = engine.limits[0].allocator == PREFIX
    first = following = phases  # not read where blocks have no identity, and no lists
    if prefix:
        first, following = engine.prefix.phase_members[r, 0], engine.prefix.phase_members[r, 1]
        first[:block_size] = NOBODY
    steps_left = engine.steps.shape[0] - engine.counters[NUM_STEPS]
    max_context = 0
    for k in range(replica.running - 1, -1, -1):
        request = engine.requests[engine.running[r, k]]
        computed = request.computed_tokens
        if request.last_token_s != replica.committed_s:
            return 0, 0  # this stream has a gap, which an ordinary step must log
        if engine.emitters[r, replica.oldest, k] != engine.running[r, k]:
            return 0, 0  # it was not in the oldest flight
        # A flight is committed here only if nobody ends in it, and the next one composed
        # only if everybody is in it, also whoever wants to end by a token yet unknown.
        composed = min(request.end_tokens + engine.limits[0].depth - 1, request.limit_tokens)
        steps_left = min(steps_left, composed - request.known_tokens)
        max_context = max(max_context, computed)
        if request.held_blocks == blocks_for(computed, block_size):
            phases[computed % block_size] += 1
            if prefix:
                following[k] = first[computed % block_size]
                first[computed % block_size] = k
        elif request.held_blocks * block_size < request.end_tokens:
            return 0, 0  # a policy reserved some blocks but not all
    return steps_left, max_context


@njit
def _extend_tables(engine: Engine, r: int, steps: int, block_size: int) -> None:
    """Step number `steps` of the coast: blocks for who starts one, hashes for who fills one.

    With two steps in flight, the token that fills a block is known one step later.
    """
    first, following = engine.prefix.phase_members[r, 0], engine.prefix.phase_members[r, 1]
    k = first[(block_size - (steps - 1) % block_size) % block_size]
    while k != NOBODY:
        take(engine, r, engine.running[r, k], 1)
        k = following[k]
    known = steps - (engine.limits[0].depth - 1)
    k = first[(block_size - known % block_size) % block_size]
    while k != NOBODY:
        i = engine.running[r, k]
        register_full(engine, r, i, engine.requests[i].computed_tokens + known)
        k = following[k]
