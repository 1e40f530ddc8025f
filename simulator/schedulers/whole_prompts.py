"""What the schedulers before chunked prefill share: whole prompts, and decodes."""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.engine.swap import swap_out
from simulator.engine.verbs import (
    admit,
    cached_tokens,
    grow,
    head,
    num_running,
    preempt,
    running_at,
    wanted_tokens,
)
from simulator.schedulers.victims import choose_victim


@njit
def admit_whole(engine: Engine, r: int, budget: int) -> bool:
    """Admit prompts from the head, whole, while budget, seats and KV blocks last.

    A resumed request computes its prompt and its outputs in one go.  The watermark keeps
    blocks free for those that decode; where nobody runs it would keep them for nobody.
    """
    limits = engine.limits[0]
    admitted = False
    while num_running(engine, r) < limits.max_num_seqs:
        i = head(engine, r)
        if i < 0:
            break
        known = engine.requests[i].known_tokens
        cached = cached_tokens(engine, r)
        tokens = known - cached
        if tokens > budget:
            break
        spare = limits.watermark_blocks if num_running(engine, r) > 0 else 0
        if not admit(engine, r, cached, tokens, known, spare):
            break
        budget -= tokens
        admitted = True
    return admitted


@njit
def decode_all(engine: Engine, r: int) -> bool:
    """One token for every running request; True if somebody had to be preempted for it.

    The victim's KV goes to host memory, or is lost where that has no room (`swap_out`).
    """
    preempted = False
    place = 0
    while place < num_running(engine, r):
        i = running_at(engine, r, place)
        fits = grow(engine, r, i, wanted_tokens(engine, i))
        while not fits:
            victim_place = choose_victim(engine, r)
            victim = running_at(engine, r, victim_place)
            if not swap_out(engine, r, victim, i):
                preempt(engine, r, victim, i)
            preempted = True
            if victim_place < place:
                place -= 1
            if victim == i:
                break
            fits = grow(engine, r, i, wanted_tokens(engine, i))
        if fits:
            place += 1
    return preempted
