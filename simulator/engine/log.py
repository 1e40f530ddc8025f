"""The event log: what happened inside each step, for those who ask.

Conformance, timelines and integrity checks read it; a run that does not ask has a log of
capacity 0 and pays one comparison per verb.
"""

from __future__ import annotations

import numpy as np

from cost_models.jit import inlined, njit
from simulator.engine.state import NUM_EVENTS, Engine

# Kinds of events, in the order in which a step can produce them.
ARRIVE, REJECT, PREEMPT, ADMIT, RESUME, SCHEDULE, LAUNCH, FIRST_TOKEN, FINISH, COMMIT = range(10)
SWAP_OUT, SWAP_IN = 10, 11  # in the place of PREEMPT and RESUME
DRAFT, ACCEPT = 12, 13  # before SCHEDULE, and before FINISH
CLAIM, GIVE_BACK = 14, 15  # of KV that goes from one replica to another; the latter between steps

EVENT = np.dtype(
    [
        ("kind", "i8"),
        ("replica", "i8"),
        ("request", "i8"),  # -1 for LAUNCH and COMMIT
        ("value", "i8"),  # SCHEDULE: tokens; PREEMPT, SWAP_OUT: for whom; LAUNCH, COMMIT,
        #                   GIVE_BACK: free blocks; ADMIT, RESUME, CLAIM: tokens found in the
        #                   prefix cache, or brought from elsewhere;
        #                   DRAFT, ACCEPT: tokens
        ("time_s", "f8"),
    ],
    align=True,
)


@inlined
def is_on(engine: Engine) -> bool:
    """Whether this run keeps an event log."""
    return bool(engine.events.shape[0] > 0)


@inlined
def record(engine: Engine, kind: int, r: int, request: int, value: int, time_s: float) -> None:
    """Append an event if the log is on; `has_room` keeps it from overflowing."""
    if is_on(engine):
        _append(engine, kind, r, request, value, time_s)


@njit
def _append(engine: Engine, kind: int, r: int, request: int, value: int, time_s: float) -> None:
    event = engine.events[engine.counters[NUM_EVENTS]]
    event.kind = kind
    event.replica = r
    event.request = request
    event.value = value
    event.time_s = time_s
    engine.counters[NUM_EVENTS] += 1
