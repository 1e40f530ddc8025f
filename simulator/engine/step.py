"""One step: deliver what has arrived, launch what was composed, commit what has ended."""

from __future__ import annotations

import math

from cost_models.jit import njit
from cost_models.kernel import step_time
from simulator.engine import log
from simulator.engine.queue import push
from simulator.engine.state import (
    DONE,
    NOBODY,
    NUM_ENDED,
    NUM_GAPS,
    NUM_STEPS,
    REJECTED,
    Engine,
)
from simulator.engine.verbs import release
from simulator.recording import QUEUE_FULL


@njit
def deliver(engine: Engine, r: int, now: float) -> int:
    """Move what has arrived by `now` from the inbox to the queue; how many found it full."""
    replica = engine.replicas[r]
    refused = 0
    while replica.inbox_head != NOBODY:
        i = replica.inbox_head
        request = engine.requests[i]
        if request.arrival_s > now:
            break
        replica.inbox_head = request.next
        if replica.waiting >= engine.limits[0].max_queue:
            request.state = REJECTED
            request.reject_reason = QUEUE_FULL
            replica.outstanding -= 1
            refused += 1
            _note_end(engine, i)
            log.record(engine, log.REJECT, r, i, 0, now)
        else:
            push(engine, r, i)
            log.record(engine, log.ARRIVE, r, i, 0, now)
    return refused


@njit
def launch(engine: Engine, r: int, now: float) -> bool:
    """Price the composed step and start it; False if nothing was composed."""
    replica = engine.replicas[r]
    running = engine.running[r]
    tokens = decode_seqs = context = max_context = 0
    prefill_seqs = prefill_tokens = prefill_kv = 0
    prefill_area = 0.0
    for k in range(replica.running):
        request = engine.requests[running[k]]
        chunk = request.scheduled_tokens
        if chunk == 0:
            continue
        end = request.computed_tokens
        tokens += chunk
        if chunk == 1 and end > request.prompt_tokens:
            decode_seqs += 1
            context += end
            if end > max_context:
                max_context = end
        else:
            prefill_seqs += 1
            prefill_tokens += chunk
            prefill_area += chunk * (end - chunk + 0.5 * chunk)
            prefill_kv += end
    if tokens == 0 and replica.preempted == 0:
        return False

    replica.tokens = tokens
    replica.padding = 0
    replica.bubbles = 0
    replica.decode_seqs = decode_seqs
    replica.context = context
    replica.max_context = max_context
    replica.prefill_seqs = prefill_seqs
    replica.prefill_tokens = prefill_tokens
    if tokens == 0:
        replica.gpu_s = engine.limits[0].victims_only_step_s
        replica.host_s = 0.0
    elif replica.padded_tokens > 0:
        _price_padded(engine, r)
    else:
        replica.gpu_s, replica.host_s = step_time(
            engine.cost,
            tokens,
            decode_seqs,
            context,
            max_context,
            prefill_seqs,
            prefill_tokens,
            prefill_area,
            prefill_kv,
            decode_seqs + prefill_seqs,
        )
    replica.step_start_s = now
    replica.step_end_s = now + (replica.gpu_s + replica.host_s)
    replica.step_running = replica.running
    replica.step_waiting = replica.waiting
    replica.step_blocks = engine.limits[0].usable_blocks - replica.free_blocks
    replica.step_kv_tokens = replica.kv_tokens
    replica.pending = 1
    if log.is_on(engine):
        _log_launch(engine, r, now)
    return True


@njit
def _log_launch(engine: Engine, r: int, now: float) -> None:
    for k in range(engine.replicas[r].running):
        i = engine.running[r, k]
        if engine.requests[i].scheduled_tokens > 0:
            log.record(engine, log.SCHEDULE, r, i, engine.requests[i].scheduled_tokens, now)
    log.record(engine, log.LAUNCH, r, NOBODY, engine.replicas[r].free_blocks, now)


@njit
def _price_padded(engine: Engine, r: int) -> None:
    """Price a static batch: every row counts, at the padded length, finished or not."""
    replica = engine.replicas[r]
    rows = replica.running
    if replica.prefill_seqs > 0:
        length = replica.padded_tokens
        replica.padding = rows * length - replica.tokens
        replica.gpu_s, replica.host_s = step_time(
            engine.cost,
            rows * length,
            0,
            0,
            0,
            rows,
            rows * length,
            rows * (0.5 * length * length),
            rows * length,
            rows,
        )
    else:
        replica.batch_steps += 1
        replica.bubbles = rows - replica.decode_seqs
        length = replica.padded_tokens + replica.batch_steps
        replica.gpu_s, replica.host_s = step_time(
            engine.cost,
            rows,
            rows,
            rows * length,
            length,
            0,
            0,
            0.0,
            0,
            rows,
        )


@njit
def commit(engine: Engine, r: int) -> int:
    """Make the pending step's results visible; returns how many requests ended."""
    replica = engine.replicas[r]
    running = engine.running[r]
    start = replica.step_start_s
    end = replica.step_end_s
    sampled = streaming = ended = kept = 0
    for k in range(replica.running):
        i = running[k]
        request = engine.requests[i]
        if request.scheduled_tokens > 0:
            request.scheduled_tokens = 0
            if request.computed_tokens == request.known_tokens:
                sampled += 1
                request.known_tokens += 1
                if math.isnan(request.first_token_s):
                    request.first_token_s = end
                elif request.last_token_s == start:
                    streaming += 1
                elif engine.limits[0].stream:
                    engine.gaps_s[engine.counters[NUM_GAPS]] = end - request.last_token_s
                    engine.counters[NUM_GAPS] += 1
                request.last_token_s = end
                if request.known_tokens == request.end_tokens:
                    if engine.limits[0].stream:
                        _end(engine, r, i, end)
                        ended += 1
                    if not engine.limits[0].hold_finished:
                        release(engine, r, i)
                        continue
                    replica.done += 1
        running[kept] = i
        kept += 1
    replica.running = kept
    if not engine.limits[0].stream:
        streaming = 0  # the client sees no gaps: all tokens come with the batch
    if replica.done > 0 and replica.done == replica.running:
        ended += _finish_batch(engine, r)
    log_step(engine, r, sampled, streaming)
    replica.pending = 0
    replica.preempted = 0
    replica.clock_s = end
    log.record(engine, log.COMMIT, r, NOBODY, replica.free_blocks, end)
    return ended


@njit
def _end(engine: Engine, r: int, i: int, now: float) -> None:
    """The client of request `i` has its last token."""
    request = engine.requests[i]
    request.state = DONE
    request.finished_s = now
    engine.replicas[r].outstanding -= 1
    _note_end(engine, i)
    log.record(engine, log.FINISH, r, i, 0, now)


@njit
def _finish_batch(engine: Engine, r: int) -> int:
    """The last row of a static batch is done: all leave, and results come back."""
    replica = engine.replicas[r]
    ended = 0
    for k in range(replica.running):
        i = engine.running[r, k]
        if not engine.limits[0].stream:
            engine.requests[i].first_token_s = replica.step_end_s
            _end(engine, r, i, replica.step_end_s)
            ended += 1
        release(engine, r, i)
    replica.running = 0
    replica.done = 0
    replica.padded_tokens = 0
    replica.batch_steps = 0
    return ended


@njit
def _note_end(engine: Engine, i: int) -> None:
    engine.ended[engine.counters[NUM_ENDED]] = i
    engine.counters[NUM_ENDED] += 1


@njit
def log_step(engine: Engine, r: int, sampled: int, streaming: int) -> None:
    """Write the committed step's row."""
    replica = engine.replicas[r]
    row = engine.steps[engine.counters[NUM_STEPS]]
    engine.counters[NUM_STEPS] += 1
    row.start_s = replica.step_start_s
    row.end_s = replica.step_end_s
    row.gpu_s = replica.gpu_s
    row.host_s = replica.host_s
    row.context_tokens = replica.context
    row.kv_tokens = replica.step_kv_tokens
    row.replica = r
    row.scheduled_tokens = replica.tokens
    row.padding_tokens = replica.padding
    row.bubble_seqs = replica.bubbles
    row.decode_seqs = replica.decode_seqs
    row.prefill_seqs = replica.prefill_seqs
    row.prefill_tokens = replica.prefill_tokens
    row.sampled_tokens = sampled
    row.streaming_seqs = streaming
    row.running = replica.step_running
    row.waiting = replica.step_waiting
    row.kv_blocks = replica.step_blocks
    row.preempted = replica.preempted
