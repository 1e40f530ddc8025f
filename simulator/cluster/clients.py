"""SimPy processes that send the requests and bring the fleet from event to event.

SimPy owns the time between replicas; a fleet runs from one event to the next in one call
of compiled code.  A request's own arrival time, not the clock that SimPy sums up from
delays, is what the fleet works with.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from simulator.cluster.routers import Router, Rows
from simulator.engine.fleet import Fleet

Process = Generator[simpy.Event, Any, None]


def open_loop(env: simpy.Environment, fleet: Fleet, router: Router, rows: Rows) -> Process:
    """Send each request at its arrival time, whatever has become of those before."""
    if not router.reads_state or len(fleet.outstanding()) == 1:
        # Nobody looks at the fleet between two arrivals: it gets them all at once.
        fleet.deliver(rows, router.choose(fleet, len(rows)))
        return
    arrival_s = fleet.requests.arrival_s[rows]
    for k in range(len(rows)):
        yield env.timeout(max(0.0, arrival_s[k] - env.now))
        fleet.advance(arrival_s[k])
        fleet.deliver(rows[k : k + 1], router.choose(fleet, 1))


def closed_loop(
    env: simpy.Environment,
    fleet: Fleet,
    router: Router,
    rows: Rows,
    seats: int,
    horizon_s: float,
) -> Process:
    """Send each request at its arrival time or when one of `seats` is free, if later.

    The semaphore in front of the server that benchmark clients use.  A seat is free again
    when its request's last token, or its rejection, has come.
    """
    arrival_s = fleet.requests.arrival_s[rows]
    sent, free, now = 0, seats, 0.0
    while sent < len(rows) or free < seats:
        while sent < len(rows) and free > 0 and arrival_s[sent] <= now:
            fleet.deliver_at(int(rows[sent]), int(router.choose(fleet, 1)[0]), now)
            sent, free = sent + 1, free - 1
        next_arrival_s = arrival_s[sent] if sent < len(rows) and free > 0 else np.inf
        if fleet.advance(min(next_arrival_s, horizon_s), stop_at_end=True):
            ended = fleet.take_ended()
            now = max(now, max(fleet.ended_at(int(row)) for row in ended))
            free += len(ended)
        elif next_arrival_s < np.inf:
            now = float(next_arrival_s)
        else:
            return  # the horizon, or nothing that is left can ever end
        yield env.timeout(max(0.0, now - env.now))
        # Others that end at the same moment are seen before anything is sent.
        while fleet.advance(now, stop_at_end=True):
            free += len(fleet.take_ended())
