"""Replicas that step together: the data-parallel engines of a server, which share experts.

Each has its own queue, batch and KV cache, but forward passes are aligned: all begin at the
same moment, engines without requests with an empty pass, and meet in every layer with
experts.  A step takes as long as the longest of what each does for itself, and what they do
together.  https://docs.vllm.ai/en/latest/serving/data_parallel_deployment/
"""

from __future__ import annotations

from cost_models import kernel
from cost_models.jit import njit
from simulator.engine.advance import (
    LOG_FULL,
    REACHED,
    SOMEBODY_ENDED,
    Compose,
    begin_step,
    has_room,
    start_next,
)
from simulator.engine.state import NEVER, NOBODY, Engine
from simulator.engine.step import commit, launch


def run_together(engine: Engine, until: float, stop_at_end: bool, compose: Compose) -> int:
    """What `advance.run` does, for groups of `group_size` replicas; one change at a time."""
    size = engine.limits[0].group_size
    while True:
        first, at, commits = _next_change(engine)
        if first == NOBODY or at > until or (at == until and not commits):
            return REACHED
        if commits:
            ended = 0
            for r in range(first, first + size):
                replica = engine.replicas[r]
                replica.stalled = 0
                if replica.pending > 0 and engine.flights[r, replica.oldest].end_s <= at:
                    if not has_room(engine, r):
                        return LOG_FULL
                    ended += commit(engine, r)
                replica.clock_s = max(replica.clock_s, at)
            if ended > 0 and stop_at_end:
                return SOMEBODY_ENDED
            continue
        refused = 0
        for r in range(first, first + size):
            refused += begin_step(engine, r, at)
        if refused > 0 and stop_at_end:
            return SOMEBODY_ENDED
        for r in range(first, first + size):
            compose(engine, r, at)
            engine.replicas[r].stalled = 0 if launch(engine, r, at) else 1
        _align(engine, first, at)


@njit
def _next_change(engine: Engine) -> tuple[int, float, bool]:
    """First replica of the group that is next, when, and whether it commits a step or composes.

    At equal times a commit goes before a compose.
    """
    size = engine.limits[0].group_size
    best, best_s, commits = NOBODY, NEVER, False
    for first in range(0, engine.replicas.shape[0], size):
        at, must = _change_of(engine, first)
        if at < best_s or (at == best_s and must and not commits):
            best, best_s, commits = first, at, must
    return best, best_s, commits


@njit
def _change_of(engine: Engine, first: int) -> tuple[float, bool]:
    """When the group from `first` on commits or composes next, and whether it commits."""
    oldest_s, newest_s, clock_s, start_s = NEVER, -NEVER, 0.0, NEVER
    ready = False
    for r in range(first, first + engine.limits[0].group_size):
        replica = engine.replicas[r]
        clock_s = max(clock_s, replica.clock_s)
        start_s = min(start_s, start_next(engine, r))
        ready = ready or (not replica.stalled and replica.running + replica.waiting > 0)
        if replica.pending > 0:
            oldest_s = min(oldest_s, engine.flights[r, replica.oldest].end_s)
            newest_s = max(newest_s, replica.gpu_free_s)
    start_s = max(start_s, clock_s)
    if oldest_s < NEVER:
        flying = 1 if oldest_s == newest_s else 2
        idle = not ready and start_s > clock_s
        if flying == engine.limits[0].depth or idle or oldest_s <= clock_s:
            return oldest_s, True
    return start_s, False


@njit
def _align(engine: Engine, first: int, now: float) -> None:
    """Give the steps that a group has just launched the time that they take together."""
    coef = engine.cost.coef
    most = total = seqs = 0
    own_s = free_s = 0.0
    for r in range(first, first + engine.limits[0].group_size):
        replica = engine.replicas[r]
        if replica.stalled:
            if replica.pending > 0:
                free_s = max(free_s, replica.gpu_free_s)
            continue
        step = engine.flights[r, (replica.oldest + replica.pending - 1) % 2]
        if replica.pending > 1:
            free_s = max(free_s, engine.flights[r, replica.oldest].end_s)
        most = max(most, step.scheduled_tokens)
        total += step.scheduled_tokens
        seqs = max(seqs, step.decode_seqs + step.prefill_seqs)
        own_s = max(own_s, step.gpu_s)
    if most == 0:
        return
    gpu_s = own_s + _together_s(engine, most, total)
    host_s = coef[kernel.HOST_BASE] + seqs * coef[kernel.HOST_PER_SEQ]
    if coef[kernel.HOST_GAP] > 0.0:
        host_s = max(coef[kernel.HOST_GAP], host_s - gpu_s)
    start_s = max(free_s, now)
    for r in range(first, first + engine.limits[0].group_size):
        replica = engine.replicas[r]
        replica.gpu_free_s = start_s + (gpu_s + host_s)
        if replica.stalled:
            continue
        step = engine.flights[r, (replica.oldest + replica.pending - 1) % 2]
        step.gpu_s, step.host_s = gpu_s, host_s
        step.start_s, step.end_s = start_s, replica.gpu_free_s


@njit
def _together_s(engine: Engine, most: int, total: int) -> float:
    """Seconds of the experts and of the exchange around them."""
    lockstep = engine.lockstep
    if most < lockstep.even_s.shape[0]:
        return float(lockstep.even_s[most])
    last = lockstep.total_s.shape[0] - 1
    if total <= last:
        return float(lockstep.total_s[total])
    return float(lockstep.total_s[last] * (total / last))
