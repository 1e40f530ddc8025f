"""Ending a run before its end, at a moment at which all replicas have come equally far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import simpy

from simulator.engine.state import NOBODY

if TYPE_CHECKING:
    from simulator.cluster.build import Servers

Stop = Callable[[], bool]

PIECES = 64  # of the time in which requests arrive
GROWTH = 1.05  # of the pieces after it, of which nobody knows how many there will be
LONGEST_S = 1e9


def run_until_stopped(
    env: simpy.Environment, fleet: Servers, horizon_s: float, stop: Stop
) -> float | None:
    """Run all events and then the fleet to `horizon_s`, but ask `stop` again and again.

    Returns
    -------
    None where the run came to its end, else the simulated time at which it was stopped.  A
    stopped run is the run whose horizon is that time.
    """
    while env.peek() < horizon_s:
        env.step()
        if env.now < env.peek() < horizon_s and stop():
            return _ended(fleet, float(env.peek()))
    for until_s in _pieces(fleet, horizon_s):
        fleet.advance(until_s)
        if stop():
            return _ended(fleet, until_s)
    fleet.advance(horizon_s)
    return None


def _pieces(fleet: Servers, horizon_s: float) -> Iterator[float]:
    """Times to stop at while anybody is left to serve, before `horizon_s`."""
    table = fleet.engine.requests
    delivered = table["replica"] != NOBODY
    arrival_s = table["arrival_s"][delivered]
    if not len(arrival_s):
        return
    for until_s in np.unique(np.quantile(arrival_s, np.linspace(0, 1, PIECES + 1)[1:])):
        if until_s < horizon_s:
            yield float(until_s)
    until_s = float(arrival_s.max())
    piece_s = max((until_s - float(arrival_s.min())) / PIECES, 1.0)
    while fleet.num_ended < len(arrival_s) and piece_s < LONGEST_S:
        until_s += piece_s
        piece_s *= GROWTH
        if until_s >= horizon_s:
            return
        yield until_s


def _ended(fleet: Servers, now_s: float) -> float:
    """Bring the fleet to `now_s` and take back the requests that arrive later."""
    fleet.advance(now_s)
    fleet.engine.requests["replica"][fleet.requests.arrival_s >= now_s] = NOBODY
    return now_s
