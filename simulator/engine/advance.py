"""Run replicas from one event of the outer clock to the next.

Visibility: a step that starts before `until` and ends after it stays pending, so that its
results show at its end and not before.  Steps that end at or before `until` are committed,
steps that start before it are composed; at equal times: commit, deliver, compose.

``run(engine, until, stop_at_end, compose)`` is written once, as a plain function.  It is
compiled with `compose` as a first-class function, so that every compiled policy, ours or a
user's, runs in the same kernel; with a policy in plain Python it runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cost_models.jit import inlined, njit
from simulator.engine.coast import coast
from simulator.engine.state import (
    NEVER,
    NOBODY,
    NUM_EVENTS,
    NUM_GAPS,
    NUM_LOSSES,
    NUM_STEPS,
    Engine,
)
from simulator.engine.step import commit, deliver, launch

# Why `run` returned.
REACHED, LOG_FULL, SOMEBODY_ENDED = 0, 1, 2

Compose = Callable[[Engine, int, float], int]


@inlined
def start_next(engine: Engine, r: int) -> float:
    """When an idle replica composes next: now, at its next arrival or wake-up, or never."""
    replica = engine.replicas[r]
    if not replica.stalled and replica.running + replica.waiting > 0:
        return float(replica.clock_s)
    start = replica.wake_s
    if replica.inbox_head != NOBODY:
        start = min(start, engine.requests[replica.inbox_head].arrival_s)
    return float(max(start, replica.clock_s))


@inlined
def has_room(engine: Engine, r: int) -> bool:
    """Whether the logs can take one more step of replica `r` and what it brings."""
    if engine.counters[NUM_STEPS] >= engine.steps.shape[0]:
        return False
    most_gaps = engine.running.shape[1] * (1 + engine.limits[0].num_speculative_tokens)
    if engine.counters[NUM_GAPS] + most_gaps > engine.gaps_s.shape[0]:
        return False
    if engine.counters[NUM_LOSSES] + engine.running.shape[1] > engine.losses.shape[0]:
        return False
    if engine.events.shape[0] == 0:
        return True
    # A step brings at most six events for each request: it arrives, is preempted, admitted,
    # scheduled, gets its first token and finishes.
    return bool(
        engine.counters[NUM_EVENTS] + 6 * engine.requests.shape[0] + 2 <= engine.events.shape[0]
    )


@njit
def begin_step(engine: Engine, r: int, now: float) -> int:
    """Set the clock to the start of a step and queue who has arrived; how many were refused."""
    replica = engine.replicas[r]
    replica.clock_s = now
    replica.stalled = 0
    replica.wake_s = NEVER
    return deliver(engine, r, now)


@inlined
def must_commit(engine: Engine, r: int) -> bool:
    """Whether replica `r` waits for its oldest flight: no more may fly, or nothing can."""
    replica = engine.replicas[r]
    if replica.pending == engine.limits[0].depth:
        return True
    if replica.pending == 0:
        return False
    idle = replica.running + replica.waiting == 0 and (
        replica.inbox_head == NOBODY
        or engine.requests[replica.inbox_head].arrival_s > replica.clock_s
    )
    return bool(replica.stalled or idle)


@njit
def next_change(engine: Engine, r: int) -> float:
    """Earliest time at which replica `r` can commit or compose."""
    if must_commit(engine, r):
        return float(engine.flights[r, engine.replicas[r].oldest].end_s)
    return start_next(engine, r)


@njit
def next_turn(engine: Engine, turn: int, until: float, stop_at_end: bool) -> tuple[int, float]:
    """Which replica runs next, and to when; (NOBODY, until) when all are there.

    Where nobody waits for an end, replicas do not meet before `until` and run one after the
    other.  Else the one whose next change is the earliest runs up to the next change of any
    other, so that no replica is ahead of an end to which a client may react.
    """
    replicas = engine.replicas.shape[0]
    if not stop_at_end:
        if turn < replicas:
            return turn, until
        return NOBODY, until
    first = NOBODY
    first_s = second_s = NEVER
    for r in range(replicas):
        change_s = next_change(engine, r)
        # At equal times a commit goes before a compose.
        if change_s < first_s or (
            change_s == first_s
            and first != NOBODY
            and must_commit(engine, r)
            and not must_commit(engine, first)
        ):
            first, first_s, second_s = r, change_s, first_s
        elif change_s < second_s:
            second_s = change_s
    if first == NOBODY:
        return NOBODY, until
    if must_commit(engine, first):
        if first_s > until:
            return NOBODY, until
        return first, min(until, second_s)
    if not first_s < until:
        return NOBODY, until
    return first, min(until, max(second_s, np.nextafter(first_s, NEVER)))


def run(engine: Engine, until: float, stop_at_end: bool, compose: Compose) -> int:
    """Run all replicas to `until`; with `stop_at_end`, to the first end of a request.

    Returns REACHED, SOMEBODY_ENDED, or LOG_FULL: drain the logs and call again.
    """
    turn = 0
    while True:
        r, bound = next_turn(engine, turn, until, stop_at_end)
        if r == NOBODY:
            return REACHED
        turn += 1
        replica = engine.replicas[r]
        while True:
            while must_commit(engine, r):
                if engine.flights[r, replica.oldest].end_s > bound:
                    break
                if not has_room(engine, r):
                    return LOG_FULL
                if commit(engine, r) > 0 and stop_at_end:
                    return SOMEBODY_ENDED
            if must_commit(engine, r):
                break
            now = start_next(engine, r)
            if not now < bound:
                break
            if begin_step(engine, r, now) > 0 and stop_at_end:
                return SOMEBODY_ENDED
            can_coast = compose(engine, r, now)
            if launch(engine, r, now):
                if can_coast:
                    coast(engine, r, bound)
            else:
                replica.stalled = 1
