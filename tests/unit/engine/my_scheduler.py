"""A scheduler of one's own: prompts may take a quarter of the budget beside decodes.

    scheduler:
      policy: my_scheduler.py:compose

A policy walks the running list and the queue of replica `r` and calls verbs; what it has
given tokens to is the next step.  Without ``@njit`` it works the same, some hundred times
slower.
"""

from cost_models.jit import njit
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


@njit
def compose(engine, r, now):
    """One token for all who run; then whole prompts, up to a quarter of the budget or one."""
    place = 0
    while place < num_running(engine, r):
        i = running_at(engine, r, place)
        while not grow(engine, r, i, wanted_tokens(engine, i)):
            latest = running_at(engine, r, num_running(engine, r) - 1)
            preempt(engine, r, latest, i)  # its KV is lost, it is back in the queue
            if latest == i:
                return 0
        place += 1

    budget = engine.limits[0].max_num_batched_tokens // 4
    first = True
    while num_running(engine, r) < engine.limits[0].max_num_seqs:
        i = head(engine, r)
        if i < 0:
            break
        cached = cached_tokens(engine, r)  # 0 without prefix caching
        prompt = engine.requests[i].known_tokens
        if prompt - cached > budget and not first:
            break  # a prompt longer than the quarter goes alone
        if not admit(engine, r, cached, prompt - cached, prompt, 0):
            break
        budget -= prompt - cached
        first = False
    return 0
