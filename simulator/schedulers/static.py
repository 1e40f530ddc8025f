"""Static batching: a batch is formed, runs until its longest output ends, and leaves.

Triton's dynamic batcher (dynamic_batch_scheduler.cc) in front of a FasterTransformer model
(ParallelGpt::forward).  The batcher collects requests while the model is busy: once it is
free, a batch of the largest preferred size that is reached starts, unless the oldest
request has waited `max_wait_s` already; then, or without a wait, all that are there start,
up to `batch_size`.  The model pads prompts to the longest and computes them in one pass;
then every row decodes, finished or not, until all are; nobody joins.  KV for the padded
prompt and the longest declared output of every row exists up front, so the memory caps the
batch before it starts.
"""

from __future__ import annotations

from cost_models.jit import njit
from simulator.engine.queue import oldest_arrival_s
from simulator.engine.state import Engine
from simulator.engine.verbs import (
    grow,
    head,
    hold,
    num_running,
    num_waiting,
    pad_batch,
    running_at,
    seat,
    sleep_until,
    wanted_tokens,
)
from simulator.kv_cache.paged import blocks_for


@njit
def _oldest_s(engine: Engine, r: int) -> float:
    """Arrival of the request that has waited longest.

    In a queue longer than there are seats the head stands for it, which under fcfs it is.
    """
    if num_waiting(engine, r) <= engine.running.shape[1]:
        return float(oldest_arrival_s(engine, r))
    return float(engine.requests[head(engine, r)].arrival_s)


@njit
def _size_of_batch(engine: Engine, r: int, now: float) -> int:
    """Requests that start now; 0 to wait for more."""
    limits = engine.limits[0]
    there = min(num_waiting(engine, r), limits.batch_size)
    send_at_s = _oldest_s(engine, r) + limits.max_wait_s
    overdue = limits.max_wait_s > 0.0 and now >= send_at_s
    if overdue:
        return int(there)
    preferred = 0
    for size in engine.preferred_sizes:
        if size <= there:
            preferred = size
    if preferred > 0:
        return int(preferred)
    if there == limits.batch_size or limits.max_wait_s == 0.0:
        return int(there)
    sleep_until(engine, r, send_at_s)
    return 0


@njit
def compose(engine: Engine, r: int, now: float) -> int:
    """Compose one step of replica `r`."""
    if num_running(engine, r) > 0:
        for place in range(num_running(engine, r)):
            i = running_at(engine, r, place)
            if engine.requests[i].known_tokens < engine.requests[i].end_tokens:
                grow(engine, r, i, wanted_tokens(engine, i))
        return 1

    limits = engine.limits[0]
    if num_waiting(engine, r) == 0:
        return 0
    size = _size_of_batch(engine, r, now)
    longest_prompt = longest_output = rows = row_blocks = 0
    while rows < size:
        request = engine.requests[head(engine, r)]
        prompt = max(longest_prompt, request.prompt_tokens)
        output = max(longest_output, request.limit_tokens - request.prompt_tokens)
        blocks = blocks_for(prompt + output, limits.block_size)
        if (rows + 1) * blocks > limits.usable_blocks:
            break
        seat(engine, r, 0)
        rows += 1
        longest_prompt, longest_output, row_blocks = prompt, output, blocks
    for place in range(rows):
        i = running_at(engine, r, place)
        hold(engine, r, i, row_blocks)
        grow(engine, r, i, wanted_tokens(engine, i))
    if rows > 0:
        pad_batch(engine, r, longest_prompt)
    return 0
