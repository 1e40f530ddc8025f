"""Early vLLM (V0): a step is either whole prompts or decodes, and prompts go first.

Rules of vllm/core/scheduler.py, mid-2024, without chunking: if any waiting prompt can be
admitted, the step holds only prompts and nobody decodes, which every running stream sees
as a stall; only a step that admits nobody decodes.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.schedulers.whole_prompts import admit_whole, decode_all


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    if admit_whole(engine, r, engine.limits[0].max_num_batched_tokens):
        return 0
    return 0 if decode_all(engine, r) else 1
