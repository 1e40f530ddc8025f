"""SimPy processes that send the requests and bring the fleet from event to event.

SimPy owns the time between replicas; a fleet runs from one event to the next in one call
of compiled code.  A request's own arrival time, not the clock that SimPy sums up from
delays, is what the fleet works with.
"""

from __future__ import annotations

from collections.abc import Generator
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from simulator.cluster.routers import Router, Rows
from simulator.engine.state import NOBODY
from simulator.workload.requests import Requests

if TYPE_CHECKING:
    from simulator.cluster.build import Servers

Process = Generator[simpy.Event, Any, None]
Ready = tuple[float, int]


def sender(env: simpy.Environment, fleet: Servers, router: Router, horizon_s: float) -> Process:
    """The process that sends all requests which arrive before `horizon_s`."""
    requests = fleet.requests
    rows = np.flatnonzero(requests.arrival_s < horizon_s)
    if requests.has_sessions:
        return closed_loop(env, fleet, router, rows, requests.max_concurrency, horizon_s)
    rows = rows[~fleet.is_rejected()[rows]]
    if requests.max_concurrency is not None:
        return closed_loop(env, fleet, router, rows, requests.max_concurrency, horizon_s)
    return open_loop(env, fleet, router, rows)


def open_loop(env: simpy.Environment, fleet: Servers, router: Router, rows: Rows) -> Process:
    """Send each request at its arrival time, whatever has become of those before."""
    if router.open is None and (not router.reads_state or len(fleet.outstanding()) == 1):
        # Nobody looks at the fleet between two arrivals: it gets them all at once.
        fleet.deliver(rows, router.choose(fleet, rows))
        return
    arrival_s = fleet.requests.arrival_s[rows]
    for k in range(len(rows)):
        yield env.timeout(max(0.0, arrival_s[k] - env.now))
        fleet.advance(arrival_s[k])
        fleet.deliver(rows[k : k + 1], router.choose(fleet, rows[k : k + 1]))


def closed_loop(
    env: simpy.Environment,
    fleet: Servers,
    router: Router,
    rows: Rows,
    seats: int | None,
    horizon_s: float,
) -> Process:
    """Send requests that wait for others to end: for a seat, or for the turn before.

    A request is sent at its arrival time, a follower `think_s` after its predecessor's last
    token (or rejection) and after all else that it is linked to, and both not before one of
    `seats` is free: the semaphore in front of the server that benchmark clients use.  The fleet
    never runs past the next end.
    """
    clients = _Clients(fleet.requests, rows, seats)
    hopeless = fleet.is_rejected()
    sent_after = fleet.requests.sent_after()
    now = 0.0
    while True:
        while clients.next_s() <= now:
            row = clients.take()
            if hopeless[row]:
                fleet.engine.requests["arrival_s"][row] = now
                clients.ended(row, now)
                continue
            before = sent_after[row]
            replica = NOBODY if before < 0 else int(fleet.engine.requests["replica"][before])
            if replica == NOBODY or not router.keeps_sessions or not router.takes(replica):
                replica = int(router.choose(fleet, np.array([row]))[0])
            fleet.deliver_at(row, replica, now)
        next_s = clients.next_s()
        other_s = env.peek()  # when somebody else acts: an autoscaler
        if fleet.advance(min(next_s, other_s, horizon_s), stop_at_end=True):
            for row in fleet.take_ended().tolist():
                ended_s = fleet.ended_at(row)
                clients.ended(row, ended_s)
                now = max(now, ended_s)
        elif next_s < horizon_s or (other_s < horizon_s and not fleet.stands_still()):
            now = min(next_s, other_s)
        else:
            return  # the horizon, or nothing that is left can ever end
        yield env.timeout(max(0.0, now - env.now))
        # Others that end at the same moment are seen before anything is sent.
        while fleet.advance(now, stop_at_end=True):
            for row in fleet.take_ended().tolist():
                clients.ended(row, fleet.ended_at(row))


class _Clients:
    """Requests that are ready to be sent, and the seats that they wait for.

    Times are Python floats, rows in two heaps of (ready_s, row): those that need a seat,
    and those that need none or whose session has one already.
    """

    def __init__(self, requests: Requests, rows: Rows, seats: int | None) -> None:
        self._seating = requests.seating
        self._unseated: list[Ready] = []
        self._seated: list[Ready] = []
        starts = requests.starts
        first = np.intersect1d(rows, starts, assume_unique=True)
        ready = zip(requests.arrival_s[first].tolist(), first.tolist(), strict=True)
        (self._seated if seats is None else self._unseated).extend(ready)
        # Who waits for whom: the followers of row i are those from offsets[i] to offsets[i + 1].
        chain = np.flatnonzero(requests.next_request >= 0)
        before = np.concatenate((chain, requests.links[:, 0]))
        after = np.concatenate((requests.next_request[chain], requests.links[:, 1]))
        delay_s = np.concatenate((requests.think_s[chain], requests.link_s))
        order = np.argsort(before, kind="stable")
        self._followers = list(zip(after[order].tolist(), delay_s[order].tolist(), strict=True))
        self._offsets = np.searchsorted(before[order], np.arange(len(requests) + 1)).tolist()
        self._waits_for = np.bincount(after, minlength=len(requests)).tolist()
        self._ready_s = [0.0] * len(requests)
        # A client of a closed loop keeps its seat until all of a session has ended.
        self._session = np.searchsorted(starts, np.arange(len(requests)), "right").tolist()
        self._unended = np.bincount(self._session).tolist()
        # When each seat is free next; the clients come to them one by one over the ramp.
        step_s = 0.0 if seats is None else self._seating.ramp_s / seats
        self._free = [step_s * k for k in range(seats or 0)]
        self._limited = seats is not None

    def next_s(self) -> float:
        """When the next request can be sent; inf for never, as far as is known."""
        return min(self._next_unseated_s(), self._seated[0][0] if self._seated else inf)

    def _next_unseated_s(self) -> float:
        if not self._unseated or not self._free:
            return inf
        return max(self._unseated[0][0], self._free[0])

    def take(self) -> int:
        """The request that `next_s` is about, which takes its seat."""
        if self._seated and self._seated[0][0] <= self._next_unseated_s():
            return heappop(self._seated)[1]
        heappop(self._free)
        return heappop(self._unseated)[1]

    def ended(self, row: int, now: float) -> None:
        """Request `row` has ended: who follows, and whether its seat is free."""
        ready = self._unseated
        if not self._limited or self._seating.whole_session:
            ready = self._seated
        for follower, delay_s in self._followers[self._offsets[row] : self._offsets[row + 1]]:
            self._ready_s[follower] = max(self._ready_s[follower], now + delay_s)
            self._waits_for[follower] -= 1
            if not self._waits_for[follower]:
                heappush(ready, (self._ready_s[follower], follower))
        session = self._session[row]
        self._unended[session] -= 1
        stays = self._seating.whole_session and self._unended[session] > 0
        if self._limited and not stays:
            heappush(self._free, now + self._seating.think_s)
