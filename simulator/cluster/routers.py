"""Which replica a request goes to."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.fleet import Fleet

Rows = NDArray[np.int64]


class Router(Protocol):
    """Chooses a replica for each request, in order of arrival.

    Attributes
    ----------
    reads_state : the choice depends on what the replicas do, so that the fleet has to be
        brought to the moment of each arrival; else requests are handed over in bulk.
    keeps_sessions : turns of a session go where the one before went; `choose` is asked for
        first turns only.
    """

    reads_state: bool
    keeps_sessions: bool

    def choose(self, fleet: Fleet, count: int) -> Rows:
        """Replicas for the next `count` requests, (count,) int64."""


class RoundRobin:
    """Replica after replica, whatever they do."""

    reads_state = False
    keeps_sessions = False

    def __init__(self) -> None:
        self._sent = 0

    def choose(self, fleet: Fleet, count: int) -> Rows:
        """Go on where the last call ended."""
        first, self._sent = self._sent, self._sent + count
        return np.arange(first, first + count, dtype=np.int64) % len(fleet.outstanding())


class LeastOutstanding:
    """The replica with the fewest requests running and waiting.

    Among equals the turn goes round, so that an idle fleet does not load its first replica.
    """

    reads_state = True
    keeps_sessions = False

    def __init__(self) -> None:
        self._next = 0

    def choose(self, fleet: Fleet, count: int) -> Rows:
        """One at a time: each choice changes what the next one sees."""
        outstanding = fleet.outstanding().copy()
        chosen = np.empty(count, np.int64)
        for k in range(count):
            turn = np.roll(outstanding, -self._next)
            chosen[k] = (int(turn.argmin()) + self._next) % len(outstanding)
            outstanding[chosen[k]] += 1
            self._next = (int(chosen[k]) + 1) % len(outstanding)
        return chosen


class SessionAffinity(LeastOutstanding):
    """The replica that had the session's turn before; for a first turn, the least loaded."""

    keeps_sessions = True


ROUTERS: dict[str, type[Router]] = {
    "round_robin": RoundRobin,
    "least_outstanding": LeastOutstanding,
    "session_affinity": SessionAffinity,
}
