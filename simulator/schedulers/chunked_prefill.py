"""vLLM V1: decodes and chunks of prompts share one token budget per step.

Rules of vllm/v1/core/sched/scheduler.py (0.33): the running list first, in its order, then
the queue, head first; whoever finds no KV block preempts; a step that preempted admits
nobody.  `simulator.schedulers.releases` says what earlier releases did otherwise.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.queue import pop, push_front
from simulator.engine.state import NOBODY, Engine
from simulator.engine.verbs import (
    admit,
    cached_tokens,
    grow,
    head,
    num_running,
    num_waiting,
    preempt,
    running_at,
    wanted_tokens,
)
from simulator.schedulers.victims import choose_victim


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    longest_chunk = cap_on_chunks(engine, r)
    budget = schedule_running(engine, r, longest_chunk)
    if budget < 0 or admit_waiting(engine, r, budget, longest_chunk):
        return 0
    return 1


@njit
def schedule_running(engine: Engine, r: int, longest_chunk: int) -> int:
    """Give tokens to the running list; what is left of the budget, -1 if it preempted."""
    limits = engine.limits[0]
    budget = limits.max_num_batched_tokens
    preempted = False
    place = 0
    while place < num_running(engine, r) and budget > 0:
        i = running_at(engine, r, place)
        chunk = min(
            wanted_tokens(engine, i),
            longest_chunk,
            budget,
            limits.max_model_len - 1 - engine.requests[i].computed_tokens,
        )
        if chunk <= 0:  # its last token is on its way
            place += 1
            continue
        lost_its_seat = False
        while not grow(engine, r, i, chunk):
            victim_place = choose_victim(engine, r)
            victim = running_at(engine, r, victim_place)
            budget += preempt(engine, r, victim, i)
            preempted = True
            if victim_place < place:
                place -= 1
            if victim == i:
                lost_its_seat = True
                break
        if not lost_its_seat:
            budget -= chunk
            place += 1
        elif limits.self_preemption_ends_scan:
            break

    return -1 if preempted else int(budget)


@njit
def cap_on_chunks(engine: Engine, r: int) -> int:
    """Largest chunk of one prompt in this step."""
    limits = engine.limits[0]
    if limits.long_prefill_token_threshold > 0 and (
        num_running(engine, r) + num_waiting(engine, r) > 1 or limits.cap_alone
    ):
        return int(limits.long_prefill_token_threshold)
    return int(limits.max_num_batched_tokens)


@njit
def admit_waiting(engine: Engine, r: int, budget: int, longest_chunk: int) -> bool:
    """Admit from the head of the queue while budget, seats and KV blocks last."""
    limits = engine.limits[0]
    admitted = False
    skipped = last_skipped = NOBODY
    while budget > 0 and num_running(engine, r) < limits.max_num_seqs:
        i = head(engine, r)
        if i < 0 or (limits.one_in_flight and engine.requests[i].in_flight > 0):
            break
        known = engine.requests[i].known_tokens
        cached = cached_tokens(engine, r)
        chunk = min(known - cached, longest_chunk)
        if not limits.chunked_prefill and chunk > budget:
            if not limits.skips_unchunkable:
                break
            last_skipped = let_pass(engine, r, last_skipped)
            if skipped == NOBODY:
                skipped = last_skipped
            continue
        chunk = min(chunk, budget)
        if not admit_chunk(engine, r, i, cached, chunk):
            break
        admitted = True
        budget -= chunk
    if skipped != NOBODY:
        take_back(engine, r, skipped)
    return admitted


@njit
def admit_chunk(engine: Engine, r: int, i: int, cached: int, chunk: int) -> bool:
    """Admit request `i`, the head of the queue, with so many tokens, if there are the blocks."""
    limits = engine.limits[0]
    watermark = limits.watermark_blocks if num_running(engine, r) > 0 else 0
    reserve = engine.requests[i].known_tokens if limits.reserve_full_isl else 0
    return admit(engine, r, cached, chunk, reserve, watermark)


@njit
def let_pass(engine: Engine, r: int, before: int) -> int:
    """Take the head out of the queue for this step, behind `before` who was taken out before."""
    i = pop(engine, r)
    engine.requests[i].next = NOBODY
    if before != NOBODY:
        engine.requests[before].next = i
    return i


@njit
def take_back(engine: Engine, r: int, first: int) -> None:
    """Put who let others pass in front of the queue again, one before the other."""
    while first != NOBODY:
        following = engine.requests[first].next
        push_front(engine, r, first)
        first = following
