"""Static batching: a batch is formed, runs until its longest output ends, and leaves.

Triton's dynamic batcher in front of a FasterTransformer model: requests are collected up
to `batch_size`, the oldest waits at most `max_wait_s`; prompts are padded to the longest
and computed in one pass; then every row decodes, finished or not, until all are; nobody
joins.  KV for the padded prompt and the longest declared output of every row exists up
front, so the memory caps the batch before it starts.
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
    if num_waiting(engine, r) < limits.batch_size:
        send_at_s = oldest_arrival_s(engine, r) + limits.max_wait_s
        if now < send_at_s:
            sleep_until(engine, r, send_at_s)
            return 0

    longest_prompt = longest_output = rows = row_blocks = 0
    while rows < limits.batch_size and num_waiting(engine, r) > 0:
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
