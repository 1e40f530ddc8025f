"""A fleet of replicas as the outer clock sees it: deliver requests, advance, read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit
from cost_models.kernel import CostTables
from cost_models.step_cost import NO_FRONTEND, Frontend
from simulator.engine.advance import LOG_FULL, Compose
from simulator.engine.allocate import allocate, empty_caches, limits_record
from simulator.engine.compiled import runner
from simulator.engine.drain import LogBook
from simulator.engine.queue import ARRIVAL_ORDER, Order
from simulator.engine.state import (
    CONTIGUOUS,
    DONE,
    FAIR,
    FCFS,
    NEVER,
    NOBODY,
    NUM_ENDED,
    PREFIX,
    REJECTED,
    Engine,
    Lockstep,
)
from simulator.kv_cache import buddy
from simulator.kv_cache.prefix import ALL_BLOCKS
from simulator.kv_cache.shareable import shareable_blocks
from simulator.recording import (
    NEVER_FITS,
    PROMPT_TOO_LONG,
    Leases,
    Recording,
    Reservations,
)
from simulator.workload.adapters import numbered
from simulator.workload.requests import Requests


@njit
def put_in_inbox(
    engine: Engine,
    rows: NDArray[np.int64],
    replicas: NDArray[np.int64],
    frontend: Frontend,
    free_s: NDArray[np.float64],
) -> None:
    """Hand requests, in order of arrival, through the API servers to their replicas' inboxes.

    `free_s` is when each replica's server has dealt with the prompts before.
    """
    for k in range(rows.shape[0]):
        request = engine.requests[rows[k]]
        replica = engine.replicas[replicas[k]]
        begun_s = max(request.arrival_s, free_s[replicas[k]])
        free_s[replicas[k]] = begun_s + request.prompt_tokens * frontend.busy_s_per_token
        request.arrival_s = free_s[replicas[k]] + frontend.wait_s
        request.replica = replicas[k]
        request.next = NOBODY
        if replica.inbox_head == NOBODY:
            replica.inbox_head = rows[k]
        else:
            engine.requests[replica.inbox_tail].next = rows[k]
        replica.inbox_tail = rows[k]
        replica.outstanding += 1


class Fleet:
    """Equal replicas under one policy, working on one table of requests.

    Parameters
    ----------
    requests : what clients will send.
    limits : fields of `state.LIMITS` and their values; those left out are 0.
    cost : prices of a step.
    compose : the policy, see `simulator.engine.verbs`.
    replicas : their number.
    frontend : the API server of each replica, between a request's arrival and its queue.
    order : in which the queue is served, see `simulator.schedulers.orders`.
    reserves_declared : the policy reserves prompt + max_tokens, so that a request for which
        the pool is too small could never start.
    oracle : a contiguous allocator reserves the prompt and the real output, which nobody can
        know, in place of the declared max_tokens.
    preferred_sizes : of static batches, which then do not wait for more requests.
    stage_shares : of the layers, of each stage of pipeline parallelism; none without.
    lockstep : what groups of `group_size` replicas (of `limits`) do as one; None where each
        steps by itself.
    events : keep an event log, for conformance and integrity checks; switches coasting off.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        limits: Mapping[str, float],
        cost: CostTables,
        compose: Compose,
        replicas: int = 1,
        frontend: Frontend = NO_FRONTEND,
        order: Order = ARRIVAL_ORDER,
        reserves_declared: bool = False,
        oracle: bool = False,
        preferred_sizes: Sequence[int] = (),
        stage_shares: Sequence[float] = (),
        lockstep: Lockstep | None = None,
        events: bool = False,
    ) -> None:
        self.requests = requests
        self.frontend = frontend
        self._frontend_free_s = np.zeros(replicas)
        self.oracle = oracle
        self._sent_s = requests.arrival_s.copy()
        self.engine = allocate(
            limits_record(limits, order=order.kind, coast=not events),
            replicas=replicas,
            requests=len(requests),
            longest=self._longest(limits),
            segments=requests.segments,
            tenants=len(requests.class_names) if order.kind == FAIR else 0,
            adapters=np.unique(requests.adapter[requests.adapter > 0]).size
            if limits.get("max_loras")
            else 0,
            cost=cost,
            events=events,
            preferred_sizes=preferred_sizes,
            stage_shares=stage_shares,
            lockstep=lockstep,
        )
        self._run = runner(compose, together=lockstep is not None)
        self.log_book = LogBook()
        self._seen_ends = 0
        self.leases: Leases | None = None  # of an autoscaler, which sets it
        self.on_progress: Callable[[], None] | None = None
        self._describe_requests(order)
        self._reject_hopeless(reserves_declared)

    def _longest(self, limits: Mapping[str, float]) -> int:
        """Most tokens that a request comes to, with drafts that it may not keep."""
        if not len(self.requests):
            return 0
        longest = int((self.requests.prompt_tokens + self.requests.output_tokens).max())
        drafts = int(limits.get("num_speculative_tokens", 0))
        return min(longest + drafts, int(limits["max_model_len"]))

    def _describe_requests(self, order: Order) -> None:
        table, requests = self.engine.requests, self.requests
        limit = self.engine.limits["max_model_len"][0]
        # A prompt too long for the column is too long for any model, and rejected.
        prompt_tokens = np.minimum(requests.prompt_tokens, np.iinfo(np.int32).max)
        table["prompt_tokens"] = prompt_tokens
        table["known_tokens"] = prompt_tokens
        table["limit_tokens"] = np.minimum(requests.prompt_tokens + requests.max_tokens, limit)
        table["end_tokens"] = np.minimum(
            requests.prompt_tokens + requests.output_tokens, table["limit_tokens"]
        )
        table["arrival_s"] = requests.arrival_s
        table["first_segment"] = requests.segment_offsets[:-1]
        table["num_segments"] = np.diff(requests.segment_offsets)
        if order.kind == FAIR:
            table["lane"] = requests.class_id
        elif self.engine.lanes.shape[1] > 1:
            table["lane"] = numbered(requests.adapter)  # a step looks at each lane
        if self.engine.limits["allocator"][0] == PREFIX:
            block_size = int(self.engine.limits["block_size"][0])
            table["shareable_blocks"] = shareable_blocks(requests, block_size)
            if self.engine.limits["offload_blocks"][0]:  # it keeps all that is evicted
                table["shareable_blocks"] = ALL_BLOCKS
        if order.kind not in (FCFS, FAIR):
            table["order_key"] = order.key
            table["id_rank"] = requests.id_rank()

    def _size_reservations(self) -> None:
        """What a contiguous allocator, or a policy that reserves, sets aside for each request."""
        limits, table = self.engine.limits[0], self.engine.requests
        tokens = table["end_tokens" if self.oracle else "limit_tokens"]
        blocks = -(-tokens // limits["block_size"])
        self.largest_reservation = int(limits["usable_blocks"])
        if limits["buddy"]:
            blocks = buddy.rounded(blocks)
            self.largest_reservation = buddy.largest(self.largest_reservation)
        too_big = blocks > self.largest_reservation  # also than the column may hold
        table["reserve_blocks"] = np.where(too_big, 0, blocks)
        self.reserved_tokens, self._needed_blocks = tokens.copy(), blocks

    def _reject_hopeless(self, reserves_declared: bool) -> None:
        """Reject at once what could never be admitted, instead of waiting for ever."""
        limits, table = self.engine.limits[0], self.engine.requests
        reasons = np.zeros(len(table), np.int64)
        if reserves_declared or limits["allocator"] == CONTIGUOUS:
            self._size_reservations()
            reasons[self._needed_blocks > self.largest_reservation] = NEVER_FITS
        reasons[table["prompt_tokens"] >= limits["max_model_len"]] = PROMPT_TOO_LONG
        table["reject_reason"] = reasons
        table["state"][reasons > 0] = REJECTED

    def explain_limits(self) -> list[str]:
        """Who is rejected or cut short, with the number that would let all of them fit."""
        table, limits = self.engine.requests, self.engine.limits[0]
        sentences = []
        too_long = self.requests.prompt_tokens[table["reject_reason"] == PROMPT_TOO_LONG]
        if len(too_long):
            sentences.append(
                f"{len(too_long)} requests are rejected on arrival: prompts of up to "
                f"{too_long.max()} tokens leave no room within kv_cache.max_model_len "
                f"{limits['max_model_len']}; {too_long.max() + 1} would admit all"
            )
        never = table["reject_reason"] == NEVER_FITS
        if never.any():
            sentences.append(
                f"{never.sum()} requests are rejected on arrival: a reservation for up to "
                f"{self.reserved_tokens[never].max()} tokens needs "
                f"{self._needed_blocks[never].max()} KV blocks at once, the replica has "
                f"{self.largest_reservation}{' in one piece' if limits['buddy'] else ''}; raise "
                "kv_cache.num_gpu_blocks or lower workload.max_tokens"
            )
        wanted = self.requests.prompt_tokens + self.requests.output_tokens
        served = (table["reject_reason"] == 0) & (table["limit_tokens"] == limits["max_model_len"])
        missing = (wanted - table["end_tokens"])[served]
        if (missing > 0).any():
            sentences.append(
                f"{(missing > 0).sum()} outputs end at kv_cache.max_model_len "
                f"{limits['max_model_len']}, {missing.sum()} tokens short; "
                f"{wanted[served].max()} would hold all"
            )
        return sentences

    def is_rejected(self) -> NDArray[np.bool_]:
        """(N,) True for requests that no replica could ever serve."""
        return np.asarray(self.engine.requests["state"] == REJECTED)

    def deliver(self, rows: NDArray[np.int64], replicas: NDArray[np.int64]) -> None:
        """Hand over requests, in order of arrival, each to its replica."""
        put_in_inbox(self.engine, rows, replicas, self.frontend, self._frontend_free_s)

    def deliver_at(self, row: int, replica: int, arrival_s: float) -> None:
        """Hand over one request at the time when it really arrives."""
        self.deliver_all_at(np.array([row]), np.array([replica]), arrival_s)

    def deliver_all_at(
        self, rows: NDArray[np.int64], replicas: NDArray[np.int64], arrival_s: float
    ) -> None:
        """Hand over requests that really arrive at the same time."""
        self.engine.requests["arrival_s"][rows] = arrival_s
        self._sent_s[rows] = arrival_s
        self.deliver(rows, replicas)

    def advance(self, until: float, *, stop_at_end: bool = False) -> bool:
        """Run to `until` (seconds); with `stop_at_end`, only to the next end of a request.

        Returns whether it stopped because a request ended.
        """
        while True:
            status = self._run(self.engine, until, stop_at_end)
            if status != LOG_FULL:
                return status != 0
            self.log_book.drain(self.engine)
            if self.on_progress is not None:
                self.on_progress()

    def take_ended(self) -> NDArray[np.int64]:
        """Rows of the requests that ended since the last call, in order."""
        seen, self._seen_ends = self._seen_ends, int(self.engine.counters[NUM_ENDED])
        return self.engine.ended[seen : self._seen_ends].copy()

    def ended_at(self, row: int) -> float:
        """When the client of request `row` learnt that it ended."""
        request = self.engine.requests[row]
        if request["state"] == DONE:
            return float(request["finished_s"])
        return float(self.engine.replicas["clock_s"][request["replica"]])

    @property
    def num_ended(self) -> int:
        """Requests that have ended, without those rejected before they were delivered."""
        return int(self.engine.counters[NUM_ENDED])

    @property
    def fleets(self) -> tuple[Fleet, ...]:
        """The fleets of equal replicas that this one consists of: itself."""
        return (self,)

    @property
    def clock_s(self) -> float:
        """Time up to which the replica that is furthest has run."""
        return float(self.engine.replicas["clock_s"].max())

    def outstanding(self) -> NDArray[np.int64]:
        """(R,) requests that each replica has: delivered and not ended."""
        return np.asarray(self.engine.replicas["outstanding"])

    def is_idle(self, replica: int) -> bool:
        """Whether all that was sent to a replica has ended, and no step of it runs."""
        row = self.engine.replicas[replica]
        return bool(row["outstanding"] == 0 and row["pending"] == 0)

    def stands_still(self) -> bool:
        """Whether nothing more happens unless requests are sent."""
        replicas = self.engine.replicas
        empty = replicas["running"] + replicas["waiting"] == 0
        waits = (replicas["inbox_head"] == NOBODY) & (replicas["wake_s"] == NEVER)
        return bool(
            ((replicas["pending"] == 0) & waits & (empty | (replicas["stalled"] == 1))).all()
        )

    def replace(self, replica: int) -> None:
        """Put a new replica, whose caches are empty, in the place of an idle one."""
        empty_caches(self.engine, replica)

    def held_blocks(self) -> NDArray[np.int64]:
        """(R,) KV blocks that the requests of each replica hold."""
        usable = self.engine.limits["usable_blocks"][0]
        return np.asarray(usable - self.engine.replicas["free_blocks"], np.int64)

    def recording(self, end_s: float) -> Recording:
        """Everything that happened, up to `end_s`; requests arrive where clients send them."""
        result = self.log_book.recording(self.engine, self.requests, end_s)
        if self.engine.limits["allocator"][0] == CONTIGUOUS:
            table = self.engine.requests
            reservations = Reservations(
                start_block=table["extent_start"].copy(),
                blocks=table["reserve_blocks"].copy(),
                tokens=self.reserved_tokens,
            )
            result = replace(result, reservations=reservations)
        if self.leases is not None:
            result = replace(result, leases=self.leases.until(end_s))
        if not any(self.frontend):
            return result
        outcome = result.outcome
        sent_s = np.where(outcome.replica == NOBODY, outcome.arrival_s, self._sent_s)
        return replace(result, outcome=replace(outcome, arrival_s=sent_s))
