"""vLLM V1 with a second tier of the prefix cache in host memory.

The rules are those of `chunked_prefill`; at admission a prefix goes on in host memory where
the GPU's cache ends, and the step waits until its blocks are copied (see
`simulator.kv_cache.offload`).
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.offload import admit_copied
from simulator.engine.state import Engine
from simulator.engine.verbs import cached_tokens, head, num_running
from simulator.kv_cache.offload import blocks_in_host, renew, take_over_evicted
from simulator.schedulers.chunked_prefill import cap_on_chunks, schedule_running


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    take_over_evicted(engine, r)
    longest_chunk = cap_on_chunks(engine, r)
    budget = schedule_running(engine, r, longest_chunk)
    if budget < 0:
        return 0
    limits = engine.limits[0]
    admitted = False
    while budget > 0 and num_running(engine, r) < limits.max_num_seqs:
        i = head(engine, r)
        if i < 0:
            break
        known = engine.requests[i].known_tokens
        cached = cached_tokens(engine, r)
        hits = cached // limits.block_size
        copies = blocks_in_host(engine, r, i, hits)
        copied = copies * limits.block_size
        chunk = min(known - cached - copied, longest_chunk)
        if not limits.chunked_prefill and chunk > budget:
            break
        chunk = min(chunk, budget)
        watermark = limits.watermark_blocks if num_running(engine, r) > 0 else 0
        reserve = known if limits.reserve_full_isl else 0
        if not admit_copied(engine, r, cached, copied, chunk, reserve, watermark):
            break
        renew(engine, r, hits, copies)
        admitted = True
        budget -= chunk
    # While somebody waits, what host memory forgets may change what is composed.
    return 0 if admitted or head(engine, r) >= 0 else 1
