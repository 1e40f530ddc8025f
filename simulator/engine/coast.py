"""Coasting: many pure-decode steps at once, in the same order of float operations.

While every member of the batch decodes and nothing arrives, ends or runs out of blocks, a
policy composes the same step again and again.  Only the summed context and the clock
change, so the steps are priced one by one but the members are visited once.
"""

from __future__ import annotations

from cost_models.jit import njit
from cost_models.kernel import step_time
from simulator.engine.state import NOBODY, NUM_STEPS, Engine
from simulator.engine.step import log_step
from simulator.kv_cache.paged import blocks_for


@njit
def coast(engine: Engine, r: int, until: float) -> None:
    """Commit the pending pure-decode step and those after it that are alike.

    Stops with a step pending: one that ends after `until`, or whose end somebody must
    look at (a request ends, an arrival is due, blocks run out, the log is full).
    """
    replica = engine.replicas[r]
    if (
        not engine.limits[0].coast
        or replica.decode_seqs < replica.running
        or replica.preempted > 0
        or replica.padded_tokens > 0
    ):
        return
    next_arrival_s = until
    if replica.inbox_head != NOBODY:
        next_arrival_s = min(until, engine.requests[replica.inbox_head].arrival_s)
    if not replica.step_end_s < next_arrival_s:
        return
    running = engine.running[r]
    members = replica.running
    block_size = engine.limits[0].block_size
    phases = engine.phases[r]
    phases[:] = 0
    steps_left = engine.steps.shape[0] - engine.counters[NUM_STEPS]
    for k in range(members):
        request = engine.requests[running[k]]
        computed = request.computed_tokens
        if request.last_token_s != replica.step_start_s or computed != request.known_tokens:
            return  # this stream has a gap, which an ordinary step must log
        # The pending step is committed here only if nobody ends in it or in those after.
        steps_left = min(steps_left, request.end_tokens - computed - 1)
        if request.held_blocks == blocks_for(computed, block_size):
            phases[computed % block_size] += 1
        elif request.held_blocks * block_size < request.end_tokens:
            return  # a policy reserved some blocks but not all
    if steps_left <= 0:
        return

    steps = 0
    last_end_s = replica.step_end_s
    while steps < steps_left and replica.step_end_s < next_arrival_s:
        # Members whose last block is full now need one more to go on.
        needed = phases[(block_size - steps % block_size) % block_size]
        if needed > replica.free_blocks:
            break
        log_step(engine, r, members, members)
        last_end_s = replica.step_end_s
        steps += 1
        replica.free_blocks -= needed
        replica.step_blocks += needed
        replica.step_kv_tokens += members
        replica.context += members
        replica.max_context += 1
        replica.gpu_s, replica.host_s = step_time(
            engine.cost,
            members,
            members,
            replica.context,
            replica.max_context,
            0,
            0,
            0.0,
            0,
            members,
        )
        replica.step_start_s = last_end_s
        replica.step_end_s = last_end_s + (replica.gpu_s + replica.host_s)
    if steps == 0:
        return
    replica.clock_s = replica.step_start_s
    replica.kv_tokens = replica.step_kv_tokens
    replica.step_waiting = replica.waiting
    for k in range(members):
        request = engine.requests[running[k]]
        request.computed_tokens += steps
        request.known_tokens += steps
        request.last_token_s = last_end_s
        request.held_blocks = max(
            request.held_blocks, blocks_for(request.computed_tokens, block_size)
        )
