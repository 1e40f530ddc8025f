"""Which replica a request goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from simulator.cluster.build import Servers


Rows = NDArray[np.int64]


class Router:
    """Chooses a replica for each request, in order of arrival.

    Attributes
    ----------
    reads_state : the choice depends on what the replicas do, so that the fleet has to be
        brought to the moment of each arrival; else requests are handed over in bulk.
    keeps_sessions : turns of a session go where the one before went; `choose` is asked for
        first turns only, and for those whose replica takes no more.
    open : numbers of the replicas that take new requests, ascending; None for all.
    """

    reads_state: bool
    keeps_sessions: bool
    open: Rows | None = None

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """Replicas of the requests `rows`, which arrive now, (len(rows),) int64."""
        raise NotImplementedError

    def candidates(self, fleet: Servers) -> Rows:
        """Replicas to choose from."""
        return np.arange(len(fleet.outstanding())) if self.open is None else self.open

    def takes(self, replica: int) -> bool:
        """Whether a replica takes new requests."""
        return self.open is None or replica in self.open

    def forget(self, replica: int) -> None:
        """A replica has gone; the next one of its number knows nothing."""


class RoundRobin(Router):
    """Replica after replica, whatever they do."""

    reads_state = False
    keeps_sessions = False

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self._sent = 0

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """Go on where the last call ended."""
        first, self._sent = self._sent, self._sent + len(rows)
        among = self.candidates(fleet)
        return among[np.arange(first, first + len(rows)) % len(among)]


class Random(Router):
    """Any replica, each as likely."""

    reads_state = False
    keeps_sessions = False

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """One number drawn for each request."""
        among = self.candidates(fleet)
        return among[self._random.integers(len(among), size=len(rows), dtype=np.int64)]


class _Least(Router):
    """The replica with the least load.

    Among equals the turn goes round, so that an idle fleet does not load its first replica.
    """

    reads_state = True
    keeps_sessions = False

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self._next = 0

    def load(self, fleet: Servers) -> NDArray[np.int64]:
        """(R,) load of each replica, of which one more request adds at least 1."""
        raise NotImplementedError

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """One at a time: each choice changes what the next one sees."""
        load, among = self.load(fleet).copy(), self.candidates(fleet)
        chosen = np.empty(len(rows), np.int64)
        for k in range(len(rows)):
            first = among.searchsorted(self._next)
            turn = np.concatenate((among[first:], among[:first]))
            chosen[k] = turn[load[turn].argmin()]
            load[chosen[k]] += 1
            self._next = int(chosen[k]) + 1
        return chosen


class LeastOutstanding(_Least):
    """The replica with the fewest requests running and waiting."""

    def load(self, fleet: Servers) -> NDArray[np.int64]:
        """Requests delivered and not ended."""
        return fleet.outstanding()


class LeastKv(_Least):
    """The replica with the fewest KV blocks in use."""

    def load(self, fleet: Servers) -> NDArray[np.int64]:
        """Blocks that requests hold."""
        return fleet.held_blocks()


class SessionAffinity(LeastOutstanding):
    """The replica that had the session's turn before; for a first turn, the least loaded."""

    keeps_sessions = True


class PowerOfTwo(Router):
    """The less loaded of two replicas that are drawn (Mitzenmacher 2001)."""

    reads_state = True
    keeps_sessions = False

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """Two different replicas drawn for each request; the first among equals."""
        outstanding, among = fleet.outstanding().copy(), self.candidates(fleet)
        chosen = np.empty(len(rows), np.int64)
        for k in range(len(rows)):
            two = among[self._random.choice(len(among), min(2, len(among)), replace=False)]
            chosen[k] = two[outstanding[two].argmin()]
            outstanding[chosen[k]] += 1
        return chosen


class PrefixAffinity(LeastOutstanding):
    """The replica that was sent the longest piece of the same prompt before.

    Load comes first where it is uneven, and a match has to be worth it, as in the
    cache-aware policy of SGLang's gateway, with its default thresholds.  The router knows
    what it has sent, not what the replicas have evicted since.
    """

    WORTH_SHARE = 0.3  # of the prompt that must match
    UNEVEN_BY, UNEVEN_TIMES = 64, 1.5  # requests more, and times as many, than the least loaded

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__(random)
        self._sent: dict[int, int] = {}  # hash of a chain of pieces: the replica it went to last

    def choose(self, fleet: Servers, rows: Rows) -> Rows:
        """One at a time, since each choice leaves its prompt behind."""
        chosen = np.empty(len(rows), np.int64)
        load, among = fleet.outstanding().copy(), self.candidates(fleet)
        for k, row in enumerate(rows.tolist()):
            chains = self._pieces(fleet, row)
            replica = self._match(chains, int(fleet.requests.prompt_tokens[row]))
            most, least = load[among].max(), load[among].min()
            uneven = most - least > self.UNEVEN_BY and most > self.UNEVEN_TIMES * least
            if replica is None or uneven:
                replica = int(super().choose(fleet, rows[k : k + 1])[0])
            self._sent.update(dict.fromkeys((chain for chain, _ in chains), replica))
            load[replica] += 1
            chosen[k] = replica
        return chosen

    def _pieces(self, fleet: Servers, row: int) -> list[tuple[int, int]]:
        """What of a request may have been sent before, as (name, tokens), the longest last."""
        return _chains(fleet, row)

    def _match(self, chains: list[tuple[int, int]], prompt_tokens: int) -> int | None:
        for chain, tokens in reversed(chains):
            known = chain in self._sent and self.takes(self._sent[chain])
            if known and tokens >= self.WORTH_SHARE * prompt_tokens:
                return self._sent[chain]
        return None

    def forget(self, replica: int) -> None:
        """Its prefixes have gone with it."""
        self._sent = {chain: r for chain, r in self._sent.items() if r != replica}


class AdapterAffinity(PrefixAffinity):
    """The replica that was sent the same LoRA adapter before, unless the load is uneven."""

    def _pieces(self, fleet: Servers, row: int) -> list[tuple[int, int]]:
        """The adapter, as if the whole prompt hung on it."""
        requests = fleet.requests
        adapter = int(requests.adapter[row]) if len(requests.adapter) else 0
        return [(adapter, int(requests.prompt_tokens[row]))] if adapter else []


def _chains(fleet: Servers, row: int) -> list[tuple[int, int]]:
    """Hash and length in tokens of each leading series of the prompt's shared pieces."""
    requests = fleet.requests
    if not len(requests.segment_offsets):
        return []
    first, last = requests.segment_offsets[row : row + 2].tolist()
    found, chain, tokens = [], 0, 0
    for tag, length in requests.segments[first:last].tolist():
        chain, tokens = hash((chain, tag, length)), tokens + length
        found.append((chain, tokens))
    return found


ROUTERS: dict[str, type[Router]] = {
    "round_robin": RoundRobin,
    "random": Random,
    "least_outstanding": LeastOutstanding,
    "least_kv": LeastKv,
    "power_of_two": PowerOfTwo,
    "session_affinity": SessionAffinity,
    "prefix_affinity": PrefixAffinity,
    "adapter_affinity": AdapterAffinity,
}
