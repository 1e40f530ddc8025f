"""vLLM V1: decodes and chunks of prompts share one token budget per step.

Rules of vllm/v1/core/sched/scheduler.py (0.33): the running list first, in its order, then
the queue, head first; whoever finds no KV block preempts; a step that preempted admits
nobody.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
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
    limits = engine.limits[0]
    budget = limits.max_num_batched_tokens
    longest_chunk = budget
    if (
        limits.long_prefill_token_threshold > 0
        and num_running(engine, r) + num_waiting(engine, r) > 1
    ):
        longest_chunk = limits.long_prefill_token_threshold

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

    if preempted:
        return 0
    admitted = False
    while budget > 0 and num_running(engine, r) < limits.max_num_seqs:
        i = head(engine, r)
        if i < 0:
            break
        known = engine.requests[i].known_tokens
        cached = cached_tokens(engine, r)
        chunk = min(known - cached, longest_chunk)
        if not limits.chunked_prefill and chunk > budget:
            break
        chunk = min(chunk, budget)
        watermark = limits.watermark_blocks if num_running(engine, r) > 0 else 0
        reserve = known if limits.reserve_full_isl else 0
        if not admit(engine, r, cached, chunk, reserve, watermark):
            break
        admitted = True
        budget -= chunk
    return 0 if admitted else 1
