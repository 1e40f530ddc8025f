"""Early vLLM (V0): a step is either whole prompts or decodes, and prompts go first.

Rules of vllm/core/scheduler.py, mid-2024, without chunking: if any waiting prompt can be
admitted, the step holds only prompts and nobody decodes, which every running stream sees
as a stall; only a step that admits nobody decodes.  Those whose KV was swapped to host
memory come back before any new prompt, but not in a step that preempted.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import NOBODY, Engine
from simulator.engine.swap import first_swapped, swap_in, swapped_blocks
from simulator.engine.verbs import grow, num_running, wanted_tokens
from simulator.kv_cache.paged import blocks_for
from simulator.schedulers.whole_prompts import admit_whole, decode_all


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    budget = engine.limits[0].max_num_batched_tokens
    if first_swapped(engine, r) == NOBODY and admit_whole(engine, r, budget):
        return 0
    if decode_all(engine, r) or return_swapped(engine, r):
        return 0
    return 1


@njit
def return_swapped(engine: Engine, r: int) -> bool:
    """Swap in whom blocks and seats allow, to decode in this step; True if anybody came.

    Beside its KV each must find one block more, whether its next token needs it or not, and
    the watermark; both keep blocks for those that decode, if any do.
    """
    limits = engine.limits[0]
    came = False
    while num_running(engine, r) < limits.max_num_seqs:
        i = first_swapped(engine, r)
        if i == NOBODY:
            break
        needed = blocks_for(engine.requests[i].known_tokens, limits.block_size)
        if num_running(engine, r) > 0:
            needed = swapped_blocks(engine, i) + 1 + limits.watermark_blocks
        if needed > engine.replicas[r].free_blocks:
            break
        swap_in(engine, r)
        grow(engine, r, i, wanted_tokens(engine, i))
        came = True
    return came
