"""Pipeline parallelism: several steps on their way through the stages at once.

One scheduler composes a step whenever fewer steps than stages are under way
(vllm/v1/engine/core.py, step_with_batch_queue).  A request has one decode in one of them;
chunks of a prompt may follow each other.  A stage takes steps in order, one at a time.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.state import Engine


@njit
def enter(engine: Engine, r: int, place: int, now: float) -> None:
    """Set the times of a priced step that is composed at `now`.

    The engine's own code works on one step after the other, beside the GPUs.  Of the pass,
    what goes on while the step before has not ended is `overlapped_s`, so that a replica's
    steps follow each other and each takes gpu_s + host_s.
    """
    replica = engine.replicas[r]
    step = engine.flights[r, place]
    stages = engine.stages[r]
    logits = min(step.decode_seqs + step.prefill_seqs, engine.cost.logits_s.shape[0] - 1)
    logits_s = min(engine.cost.logits_s[logits], step.gpu_s)
    sent_s = now + step.host_s
    at = sent_s
    for stage in range(stages.shape[0]):
        at = max(at, stages[stage].free_s) + (step.gpu_s - logits_s) * stages[stage].share
        if stage == stages.shape[0] - 1:
            at += logits_s
        stages[stage].free_s = at
    pass_s = step.gpu_s
    step.start_s = max(replica.gpu_free_s, now)
    step.end_s = at
    step.host_s = max(0.0, sent_s - step.start_s)
    step.gpu_s = at - step.start_s - step.host_s
    step.overlapped_s = max(0.0, pass_s - step.gpu_s)
    replica.gpu_free_s = at
    replica.clock_s = sent_s
