"""Orca: iteration-level scheduling, whole prompts in the same step as decodes.

Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models"
(OSDI 2022): requests join and leave at every iteration, in order of arrival; prompts are
not chunked, so a long one lengthens the step of everybody in it.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine
from simulator.engine.verbs import num_running
from simulator.schedulers.whole_prompts import admit_whole, decode_all


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    if decode_all(engine, r):
        return 0
    budget = engine.limits[0].max_num_batched_tokens - num_running(engine, r)
    return 0 if admit_whole(engine, r, budget) else 1
