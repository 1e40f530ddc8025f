"""A SimPy process that orders replicas, lets them start, drains and releases them.

From the order on a replica is paid for; it starts, serves, is drained (finishes what it has
and gets no more) and is released at its last token.  The router chooses among those that
serve.  On the way down those that start go first, then the youngest, as a ReplicaSet of
Kubernetes deletes its pods.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np
import simpy

from simulator.cluster.routers import Router
from simulator.cluster.scaling_rules import rule_of
from simulator.engine.fleet import Fleet
from simulator.recording import Leases
from simulator.scenario.autoscaler import AutoscalerSpec

Process = Generator[simpy.Event, Any, None]


@dataclass(eq=False)
class _Lease:
    """One stretch for which a replica is paid for; see `simulator.recording.Leases`."""

    replica: int
    ordered_s: float
    ready_s: float = nan
    drained_s: float = nan
    released_s: float = nan

    @property
    def paid(self) -> bool:
        """It has not been released."""
        return isnan(self.released_s)

    @property
    def ordered(self) -> bool:
        """It serves, or will."""
        return isnan(self.drained_s)

    @property
    def serves(self) -> bool:
        """It takes new requests."""
        return self.ordered and not isnan(self.ready_s)


class Autoscaler:
    """The replicas of a fleet that are there, of those that there could be.

    Parameters
    ----------
    fleet : of as many replicas as there can be.
    router : is told which of them take new requests.
    replicas : that serve at time 0.
    start_s : from the order of a replica to its first request.
    """

    def __init__(
        self,
        env: simpy.Environment,
        fleet: Fleet,
        router: Router,
        spec: AutoscalerSpec,
        *,
        replicas: int,
        start_s: float,
    ) -> None:
        self._env, self._fleet, self._router, self._spec = env, fleet, router, spec
        self._start_s = start_s
        self._leases = [_Lease(r, 0.0, 0.0) for r in range(replicas)]
        self._wanted = rule_of(spec, replicas)
        self._publish()

    def run(self, sending: simpy.Process) -> Process:
        """Look at the load again and again, until all requests are sent and have ended."""
        for look in range(1, 1 << 62):
            now = look * self._spec.poll_interval_s
            yield self._env.timeout(max(0.0, now - self._env.now))
            self._fleet.advance(now)
            self._release()
            if not sending.is_alive and self._fleet.stands_still():
                return self._publish()
            ordered = [lease for lease in self._leases if lease.ordered]
            wanted = self._wanted(now, len(ordered), self._fleet, self._serving())
            self._order(wanted - len(ordered), now)
            self._drain(len(ordered) - wanted, now)
            self._publish()

    def _serving(self) -> list[int]:
        return sorted(lease.replica for lease in self._leases if lease.serves)

    def _order(self, count: int, now: float) -> None:
        """Order replicas, as many as there are places for: one that drains keeps its own."""
        taken = {lease.replica for lease in self._leases if lease.paid}
        places = [r for r in range(self._spec.max_replicas) if r not in taken]
        for replica in places[: max(count, 0)]:
            lease = _Lease(replica, now)
            self._leases.append(lease)
            self._env.process(self._start(lease))

    def _start(self, lease: _Lease) -> Process:
        """Let a replica start; it may be given up before it has."""
        ready_s = lease.ordered_s + self._start_s
        yield self._env.timeout(max(0.0, ready_s - self._env.now))
        if lease.ordered:
            lease.ready_s = ready_s
            self._fleet.replace(lease.replica)
            self._publish()

    def _drain(self, count: int, now: float) -> None:
        """Give up replicas that start, and then send no more to the youngest."""
        youngest = sorted(
            (lease for lease in self._leases if lease.ordered),
            key=lambda lease: (lease.serves, -lease.ordered_s, -lease.replica),
        )
        for lease in youngest[: max(count, 0)]:
            lease.drained_s = now
        self._release()

    def _release(self) -> None:
        """Stop paying for drained replicas from their last token on."""
        for lease in self._leases:
            if lease.ordered or not lease.paid or not self._fleet.is_idle(lease.replica):
                continue
            last_s = float(self._fleet.engine.replicas["committed_s"][lease.replica])
            lease.released_s = lease.drained_s if isnan(last_s) else max(lease.drained_s, last_s)
            self._router.forget(lease.replica)

    def _publish(self) -> None:
        """Tell the router who serves, and the fleet who is paid for."""
        self._router.open = np.array(self._serving(), np.int64)
        names = ("replica", "ordered_s", "ready_s", "drained_s", "released_s")
        rows = [[getattr(lease, name) for name in names] for lease in self._leases]
        columns = np.array(rows, np.float64).T
        self._fleet.leases = Leases(
            replica=columns[0].astype(np.int64), **dict(zip(names[1:], columns[1:], strict=True))
        )
