"""vLLM V1 on a replica that generates from prompts computed elsewhere.

The rules are those of `chunked_prefill`; a request whose KV is offered claims its blocks
instead of being admitted, and is admitted when the KV has come (see
`simulator.engine.remote_kv`).  Who was preempted has lost it and computes its prompt here.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.remote_kv import (
    admit_arrived,
    blocks_of_unfinished_prompts,
    claim,
    is_offered,
    num_loading,
)
from simulator.engine.state import Engine
from simulator.engine.verbs import admit, cached_tokens, head, num_running
from simulator.schedulers.chunked_prefill import cap_on_chunks, schedule_running


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    longest_chunk = cap_on_chunks(engine, r)
    budget = schedule_running(engine, r, longest_chunk)
    if budget < 0:
        return 0
    arrived = admit_arrived(engine, r, now, budget)
    admitted = admit_or_claim(engine, r, budget - arrived, longest_chunk)
    return 0 if arrived > 0 or admitted or num_loading(engine, r) > 0 else 1


@njit
def admit_or_claim(engine: Engine, r: int, budget: int, longest_chunk: int) -> bool:
    """Go through the queue from its head; whether anybody was admitted."""
    limits = engine.limits[0]
    admitted = False
    while budget > 0 and num_running(engine, r) < limits.max_num_seqs:
        i = head(engine, r)
        if i < 0:
            break
        known = engine.requests[i].known_tokens
        cached = cached_tokens(engine, r)
        watermark = limits.watermark_blocks if num_running(engine, r) > 0 else 0
        if is_offered(engine, i):
            if not claim(engine, r, cached, watermark + blocks_of_unfinished_prompts(engine, r)):
                break
            continue
        chunk = min(known - cached, longest_chunk)
        if not limits.chunked_prefill and chunk > budget:
            break
        chunk = min(chunk, budget)
        reserve = known if limits.reserve_full_isl else 0
        if not admit(engine, r, cached, chunk, reserve, watermark):
            break
        admitted = True
        budget -= chunk
    return admitted
