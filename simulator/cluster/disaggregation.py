"""Two fleets, one for prompts and one for what follows, that look like one to the clients.

A request goes to a prefill replica, which computes its prompt and a first token and keeps the
KV; then to a decode replica, which claims blocks, has the KV brought there and generates
(`simulator.engine.remote_kv`).  What the fleets tell each other has a time: a prompt that is
done, and KV that has been read, whose blocks the prefill replica gets back.  Neither fleet
runs ahead of what the other may still tell it: prefill not past the next moment at which a
decode replica may claim blocks, decode not past the next step of prefill.  So the two are as
exact as one, at some calls of compiled code per request.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import inf, nextafter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.kv_transfer import Transfers
from simulator.cluster.two_stages import merged
from simulator.engine import remote_kv
from simulator.engine.compiled import entry_point
from simulator.engine.fleet import Fleet
from simulator.engine.state import DONE, NOBODY, Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.cluster.routers import Router
    from simulator.recording import Recording
    from simulator.workload.requests import Requests

Rows = NDArray[np.int64]


def prompts_only(requests: Requests) -> Requests:
    """The requests as the proxy sends them to prefill: with one token to generate."""
    one = np.ones(len(requests), np.int64)
    return replace(requests, output_tokens=one, max_tokens=one)


class Pools:
    """A prefill and a decode fleet behind one front door; see the module.

    Has what routers and clients ask of a `Fleet`, of which `prefill` is the part that they see.

    Parameters
    ----------
    requests : what clients will send; `prefill` has them as `prompts_only`.
    transfers : of KV between replicas of the two.
    router : which decode replica a request goes to, when its prompt is done.
    prefill_token : the client gets the first token from prefill, as soon as it is there.

    Attributes
    ----------
    num_ended : requests whose clients have their last token, or were rejected on arrival.
    """

    def __init__(
        self,
        requests: Requests,
        prefill: Fleet,
        decode: Fleet,
        transfers: Transfers,
        router: Router,
        *,
        prefill_token: bool,
    ) -> None:
        self.requests = requests
        self.prefill, self.decode = prefill, decode
        self.transfers = transfers
        self._router = router
        self._prefill_token = prefill_token
        self._before = requests.sent_after() if router.keeps_sessions else None
        self._name_columns()
        self._reading: list[tuple[float, int]] = []  # when the KV of a row has been read
        self._seen_claims = 0
        self._ended: list[int] = []
        self.num_ended = 0

    def _name_columns(self) -> None:
        """What is read and called for every request, found once."""
        first, second = self.prefill.engine.requests, self.decode.engine.requests
        remote = self.decode.engine.remote.requests
        self._prefill_state, self._prefill_replica = first["state"], first["replica"]
        self._prefilled_s, self._prefill_blocks = first["finished_s"], first["held_blocks"]
        self._decode_replica = second["replica"]
        self._claimed_s, self._pulled_blocks = remote["claimed_s"], remote["pulled_blocks"]
        self._wants_one = second["end_tokens"] == second["prompt_tokens"] + 1
        self._offer = entry_point(remote_kv.offer, "int64", "boolean", "boolean", "float64")
        self._set_arrival = entry_point(remote_kv.set_arrival, "int64", "float64")
        self._give_back = entry_point(remote_kv.give_back, "int64", "float64")
        self._next_claim_s = entry_point(remote_kv.next_claim_s)
        self._next_change_s = entry_point(remote_kv.next_change_s)

    @property
    def engine(self) -> Engine:
        """The state that clients see."""
        return self.prefill.engine

    @property
    def fleets(self) -> tuple[Fleet, ...]:
        """Prefill and decode."""
        return (self.prefill, self.decode)

    @property
    def clock_s(self) -> float:
        """Time up to which the replica that is furthest has run."""
        return max(self.prefill.clock_s, self.decode.clock_s)

    @property
    def on_progress(self) -> Callable[[], None] | None:
        """Called now and then."""
        return self.decode.on_progress

    @on_progress.setter
    def on_progress(self, tell: Callable[[], None] | None) -> None:
        self.decode.on_progress = tell

    def is_rejected(self) -> NDArray[np.bool_]:
        """(N,) True for requests that no replica could ever serve."""
        return self.prefill.is_rejected()

    def stands_still(self) -> bool:
        """Whether nothing more happens unless requests are sent."""
        return not self._reading and all(fleet.stands_still() for fleet in self.fleets)

    def outstanding(self) -> Rows:
        """(P,) requests that each prefill replica has."""
        return self.prefill.outstanding()

    def held_blocks(self) -> Rows:
        """(P,) KV blocks that each prefill replica keeps for requests."""
        return self.prefill.held_blocks()

    def deliver(self, rows: Rows, replicas: Rows) -> None:
        """Hand over requests, in order of arrival, each to its prefill replica."""
        self.prefill.deliver(rows, replicas)

    def deliver_at(self, row: int, replica: int, arrival_s: float) -> None:
        """Hand over one request at the time when it really arrives."""
        self.prefill.deliver_at(row, replica, arrival_s)

    def take_ended(self) -> Rows:
        """Rows of the requests that ended since the last call, in order."""
        ended, self._ended = self._ended, []
        return np.array(ended, np.int64)

    def ended_at(self, row: int) -> float:
        """When the client of request `row` learnt that it ended."""
        in_decode = self.decode.engine.requests["replica"][row] != NOBODY
        return (self.decode if in_decode else self.prefill).ended_at(row)

    def advance(self, until: float, *, stop_at_end: bool = False) -> bool:
        """Run both fleets to `until` (seconds); with `stop_at_end`, only to the next end.

        Returns whether it stopped because a request ended.
        """
        # A claim, or also an end.
        news = self._next_change_s if stop_at_end else self._next_claim_s
        while not (stop_at_end and self._ended):
            news_s = news(self.decode.engine)  # when decode may have them next
            read_s = self._reading[0][0] if self._reading else inf
            bound_s = min(until, news_s, read_s)
            if self.prefill.advance(bound_s, stop_at_end=True):
                self._hand_over(self.prefill.take_ended())
            elif read_s == bound_s < inf:
                self._give_back(self.prefill.engine, heappop(self._reading)[1], read_s)
            elif news_s == bound_s < until:
                self._advance_decode(nextafter(news_s, inf), stop_at_end)
            else:
                self._advance_decode(until, stop_at_end)
                return bool(stop_at_end and self._ended)
        return True

    def _advance_decode(self, until: float, stop_at_end: bool) -> None:
        self.decode.advance(until, stop_at_end=stop_at_end)
        self._note_ends(self.decode.take_ended().tolist())
        self._start_transfers()

    def _note_ends(self, rows: list[int]) -> None:
        self._ended += rows
        self.num_ended += len(rows)

    def _hand_over(self, rows: Rows) -> None:
        """Requests have left prefill in one step: on to decode, unless they have all they want.

        Those that it refused end here, too.
        """
        computed = self._prefill_state[rows] == DONE
        self._note_ends(rows[~computed].tolist())
        rows = rows[computed]
        if not len(rows):
            return
        now = float(self._prefilled_s[rows[0]])
        if self._prefill_token:
            alone = self._wants_one[rows]
            for row in rows[alone].tolist():
                self._give_back(self.prefill.engine, row, now)
            self._note_ends(rows[alone].tolist())
            rows = rows[~alone]
        for row in rows.tolist():
            # Asynchronous scheduling may have preempted it with its token in flight.
            has_kv = bool(self._prefill_blocks[row] > 0)
            self._offer(self.decode.engine, row, has_kv, self._prefill_token, now)
        if len(rows):
            if self._router.reads_state:
                self._advance_decode(now, False)
            self.decode.deliver_all_at(rows, self._decode_replicas(rows), now)

    def _decode_replicas(self, rows: Rows) -> Rows:
        chosen = self._router.choose(self.decode, rows)
        if self._before is not None:
            before = self._before[rows]
            known = np.where(before >= 0, self._decode_replica[before], NOBODY)
            chosen = np.where(known >= 0, known, chosen)
        return chosen

    def _start_transfers(self) -> None:
        """Say when the KV that was asked for since the last call will be there."""
        remote = self.decode.engine.remote
        seen, self._seen_claims = self._seen_claims, int(remote.count[0])
        for row in remote.claimed[seen : self._seen_claims].tolist():
            arrived_s = self.transfers.arrival_s(
                int(self._prefill_replica[row]),
                int(self._decode_replica[row]),
                int(self._pulled_blocks[row]),
                float(self._claimed_s[row]),
            )
            self._set_arrival(self.decode.engine, row, arrived_s)
            heappush(self._reading, (arrived_s, row))

    def recording(self, end_s: float) -> Recording:
        """Everything that happened, up to `end_s`, of both fleets together."""
        return merged(
            self.requests,
            self.prefill.recording(end_s),
            self.decode.recording(end_s),
            self.decode.engine.remote.requests,
            prefill_token=self._prefill_token,
        )

    def explain_limits(self) -> list[str]:
        """Who is rejected or cut short, with the number that would let all of them fit."""
        return self.decode.explain_limits()
