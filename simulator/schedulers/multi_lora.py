"""vLLM V1 with LoRA adapters.

The rules are those of `chunked_prefill`, but that only those of the queue are admitted whose
adapter may be in the batch (see `simulator.engine.adapters`).
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.adapters import head_with_adapter, join_batch, note_running, price_adapters
from simulator.engine.state import Engine
from simulator.engine.verbs import cached_tokens, num_running
from simulator.schedulers.chunked_prefill import admit_chunk, cap_on_chunks, schedule_running


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    longest_chunk = cap_on_chunks(engine, r)
    budget = schedule_running(engine, r, longest_chunk)
    admitted = budget >= 0 and admit_waiting(engine, r, budget, longest_chunk)
    with_adapters = price_adapters(engine, r)
    return 0 if budget < 0 or admitted or with_adapters else 1


@njit
def admit_waiting(engine: Engine, r: int, budget: int, longest_chunk: int) -> bool:
    """Admit from the queue, without those of adapters too many, as `chunked_prefill` does."""
    admitted = False
    note_running(engine, r)
    while budget > 0 and num_running(engine, r) < engine.limits[0].max_num_seqs:
        i = head_with_adapter(engine, r)
        if i < 0:
            break
        cached = cached_tokens(engine, r)
        chunk = min(engine.requests[i].known_tokens - cached, longest_chunk, budget)
        if not admit_chunk(engine, r, i, cached, chunk):
            break
        join_batch(engine, r, i)
        admitted = True
        budget -= chunk
    return admitted
