"""One step: deliver what has arrived, launch what was composed, commit what has ended."""

from __future__ import annotations

from cost_models.jit import inlined, njit
from cost_models.kernel import step_time
from simulator.engine import fair, log, pipeline
from simulator.engine.queue import drop_ended, push
from simulator.engine.speculation import accept_drafts
from simulator.engine.state import (
    CONTIGUOUS,
    DONE,
    FAIR,
    NEVER,
    NOBODY,
    NUM_ENDED,
    NUM_GAPS,
    NUM_LOSSES,
    NUM_STEPS,
    PREFIX,
    QUEUED,
    REJECTED,
    RUNNING,
    Engine,
)
from simulator.engine.verbs import release
from simulator.kv_cache.contiguous import largest_gap
from simulator.kv_cache.prefix import register_full
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
        if (
            replica.waiting - _free_seats(engine, r, request.arrival_s)
            >= engine.limits[0].max_queue
        ):
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
def _free_seats(engine: Engine, r: int, arrival_s: float) -> int:
    """Seats that nobody held when a request arrived, during the latest step or after it."""
    limits = engine.limits[0]
    replica = engine.replicas[r]
    taken = replica.step_running if arrival_s < replica.committed_s else replica.running
    if limits.hold_finished:  # nobody joins a static batch
        return int(limits.batch_size) if taken == 0 else 0
    return int(limits.max_num_seqs - taken)


@njit
def launch(engine: Engine, r: int, now: float) -> bool:
    """Price the composed step and start it; False if nothing was composed."""
    replica = engine.replicas[r]
    running = engine.running[r]
    place = _after(engine, r, replica.pending)
    emitters = engine.emitters[r, place]
    tokens = decode_seqs = context = max_context = sampled = 0
    prefill_seqs = prefill_tokens = prefill_kv = 0
    prefill_area = 0.0
    if log.is_on(engine):
        _log_schedule(engine, r, now)
    for k in range(replica.running):
        request = engine.requests[running[k]]
        chunk = request.scheduled_tokens
        if chunk == 0:
            continue
        request.scheduled_tokens = 0
        end = request.computed_tokens
        tokens += chunk
        # One token behind KV that was read from elsewhere is a decode, though it was known.
        if chunk == 1 and end > request.prompt_tokens - engine.limits[0].reads_kv:
            decode_seqs += 1
            context += end
            max_context = max(max_context, end)
        else:
            prefill_seqs += 1
            prefill_tokens += chunk
            prefill_area += chunk * (end - chunk + 0.5 * chunk)
            prefill_kv += end
        if end == request.known_tokens:  # its last known token is in: one more will be known
            request.known_tokens += 1
            request.in_flight += 1
            emitters[sampled] = running[k]
            sampled += 1
    if tokens == 0 and replica.preempted == 0:
        return False

    step = engine.flights[r, place]
    step.scheduled_tokens = tokens
    step.padding_tokens = 0
    step.bubble_seqs = 0
    step.decode_seqs = decode_seqs
    step.context_tokens = context
    step.prefill_seqs = prefill_seqs
    step.prefill_tokens = prefill_tokens
    step.sampled_tokens = sampled
    step.replica = r
    step.running = replica.running
    replica.step_running = replica.running
    step.waiting = replica.waiting
    step.kv_blocks = engine.limits[0].usable_blocks - replica.free_blocks
    step.kv_tokens = replica.kv_tokens
    step.largest_gap_blocks = replica.free_blocks
    if engine.limits[0].allocator == CONTIGUOUS:
        step.largest_gap_blocks = largest_gap(engine, r)
    step.preempted = replica.preempted
    if tokens == 0:
        step.gpu_s = 0.0  # it only preempted
        step.host_s = 0.0
    elif replica.padded_tokens > 0:
        _price_padded(engine, r, place)
    else:
        step.gpu_s, step.host_s = step_time(
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
    step.gpu_s += replica.extra_gpu_s
    step.host_s += replica.extra_host_s
    replica.extra_gpu_s = 0.0
    replica.extra_host_s = 0.0
    if replica.beside_gpu_s > step.gpu_s:
        replica.transfer_s += replica.beside_gpu_s - step.gpu_s
        step.gpu_s = replica.beside_gpu_s
    replica.beside_gpu_s = 0.0
    step.rejected_tokens = replica.drafted_tokens
    replica.drafted_tokens = 0
    replica.preempted = 0
    step.overlapped_s = 0.0
    if engine.stages.shape[1] > 0:
        pipeline.enter(engine, r, place, now)
    else:
        start_flight(engine, r, place, now)
    replica.pending += 1
    if engine.limits[0].count_steps:
        replica.clock_s = now + 1.0
    log.record(engine, log.LAUNCH, r, NOBODY, replica.free_blocks, now)
    return True


@inlined
def _after(engine: Engine, r: int, steps: int) -> int:
    """Place in the ring of flights so many steps after the oldest."""
    place = engine.replicas[r].oldest + steps
    slots = engine.flights.shape[1]
    return int(place - slots if place >= slots else place)


@inlined
def start_flight(engine: Engine, r: int, place: int, now: float) -> None:
    """Set the times of a priced step that is composed at `now`.

    Under asynchronous scheduling it may have to wait for the one before it; its host time
    is then what the cost model leaves of it beside the GPU's.
    """
    replica = engine.replicas[r]
    step = engine.flights[r, place]
    step.start_s = max(replica.gpu_free_s, now)
    step.end_s = step.start_s + (step.gpu_s + step.host_s)
    replica.gpu_free_s = step.end_s


@njit
def _log_schedule(engine: Engine, r: int, now: float) -> None:
    for k in range(engine.replicas[r].running):
        i = engine.running[r, k]
        if engine.requests[i].scheduled_tokens > 0:
            log.record(engine, log.SCHEDULE, r, i, engine.requests[i].scheduled_tokens, now)


@njit
def _price_padded(engine: Engine, r: int, place: int) -> None:
    """Price a static batch: every row counts, at the padded length, finished or not."""
    replica = engine.replicas[r]
    step = engine.flights[r, place]
    rows = replica.running
    length = replica.padded_tokens
    if step.prefill_seqs > 0:
        step.padding_tokens = rows * length - step.scheduled_tokens
        area = rows * (0.5 * length * length)
        step.gpu_s, step.host_s = step_time(
            engine.cost, rows * length, 0, 0, 0, rows, rows * length, area, rows * length, rows
        )
    else:
        replica.batch_steps += 1
        step.bubble_seqs = rows - step.decode_seqs
        length += replica.batch_steps
        step.gpu_s, step.host_s = step_time(
            engine.cost, rows, rows, rows * length, length, 0, 0, 0.0, 0, rows
        )


@njit
def commit(engine: Engine, r: int) -> int:
    """Make the oldest flight's results visible; returns how many requests ended."""
    limits = engine.limits[0]
    replica = engine.replicas[r]
    step = engine.flights[r, replica.oldest]
    emitters = engine.emitters[r, replica.oldest]
    end = step.end_s
    streaming = ended = left = delivered = accepted = 0
    if limits.order == FAIR:
        fair.charge_outputs(engine, r, replica.oldest)
    for k in range(step.sampled_tokens):
        i = emitters[k]
        request = engine.requests[i]
        request.in_flight -= 1
        if engine.drafts.shape[0] > 0:
            accepted += accept_drafts(engine, r, i, end)
        visible = request.known_tokens - request.in_flight
        if request.state == DONE:
            request.known_tokens -= 1
            continue  # it ended while this step was already composed: a wasted token
        delivered += 1
        streams = False
        if visible == request.prompt_tokens + 1:
            request.first_token_s = end
            log.record(engine, log.FIRST_TOKEN, r, i, 0, end)
        elif not limits.stream:
            pass  # the client sees no gaps: all tokens come with the batch
        elif request.last_token_s == replica.committed_s:
            streaming += 1
            streams = True
        else:
            engine.gaps_s[engine.counters[NUM_GAPS]] = end - request.last_token_s
            engine.counters[NUM_GAPS] += 1
        if not streams and request.lost_s < NEVER and request.state == RUNNING:
            _note_recovery(engine, i, end)
        request.last_token_s = end
        if (
            (limits.depth == 2 or limits.hash_when_computed)
            and limits.allocator == PREFIX
            and request.state == RUNNING
        ):
            # Only now is the token known, and with it the hash of the block it may fill.
            register_full(engine, r, i, request.computed_tokens - request.in_flight)
        if visible == request.end_tokens:
            if limits.stream:
                _end(engine, r, i, end)
                ended += 1
            if limits.hold_finished:
                replica.done += 1
            else:
                left += 1
    if left > 0:
        _leave(engine, r)
    if replica.done > 0 and replica.done == replica.running:
        ended += _finish_batch(engine, r, end)
    step.sampled_tokens = delivered + accepted
    step.scheduled_tokens += accepted
    step.rejected_tokens -= accepted
    step.streaming_seqs = streaming
    step.gap_s = end - replica.committed_s
    engine.steps[engine.counters[NUM_STEPS]] = step
    engine.counters[NUM_STEPS] += 1
    replica.committed_s = end
    replica.oldest = _after(engine, r, 1)
    replica.pending -= 1
    replica.stalled = 0
    if not limits.count_steps:
        replica.clock_s = max(replica.clock_s, end)
    log.record(engine, log.COMMIT, r, NOBODY, replica.free_blocks, end)
    return ended


@njit
def _note_recovery(engine: Engine, i: int, now: float) -> None:
    """A request that had lost its KV blocks has its next token."""
    request = engine.requests[i]
    loss = engine.losses[engine.counters[NUM_LOSSES]]
    loss.request = i
    loss.from_s = request.lost_s
    if request.last_token_s > request.lost_s:  # that token was in flight at the loss
        loss.from_s = request.last_token_s
    loss.until_s = now
    engine.counters[NUM_LOSSES] += 1
    request.lost_s = NEVER


@njit
def _end(engine: Engine, r: int, i: int, now: float) -> None:
    """The client of request `i` has its last token."""
    request = engine.requests[i]
    limits = engine.limits[0]
    if request.state == RUNNING and not limits.hold_finished and not limits.lends_kv:
        release(engine, r, i)
    elif request.state == QUEUED:  # preempted while its last token was in flight
        engine.replicas[r].waiting -= 1
    request.state = DONE
    request.finished_s = now
    engine.replicas[r].outstanding -= 1
    _note_end(engine, i)
    log.record(engine, log.FINISH, r, i, 0, now)


@njit
def _leave(engine: Engine, r: int) -> None:
    """Close the ranks of the running list, and of the queue's head, behind who has ended."""
    replica = engine.replicas[r]
    running = engine.running[r]
    kept = 0
    for k in range(replica.running):
        if engine.requests[running[k]].state != DONE:
            running[kept] = running[k]
            kept += 1
    replica.running = kept
    drop_ended(engine, r)


@njit
def _finish_batch(engine: Engine, r: int, now: float) -> int:
    """The last row of a static batch is done: all leave; without streaming, results come."""
    replica = engine.replicas[r]
    ended = 0
    for k in range(replica.running):
        i = engine.running[r, k]
        if not engine.limits[0].stream:
            engine.requests[i].first_token_s = now
            _end(engine, r, i, now)
            ended += 1
        release(engine, r, i)
    replica.running = 0
    replica.done = 0
    replica.padded_tokens = 0
    replica.batch_steps = 0
    return ended


@inlined
def _note_end(engine: Engine, i: int) -> None:
    engine.ended[engine.counters[NUM_ENDED]] = i
    engine.counters[NUM_ENDED] += 1
