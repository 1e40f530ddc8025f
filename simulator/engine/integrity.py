"""Is a run sound?  Its event log, counted again by other means, must agree with it.

The engine keeps running sums; here the same facts are derived from the log alone: who holds
which blocks, who runs and who waits, which tokens were computed and sampled and when.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine import log
from simulator.engine.fleet import Fleet
from simulator.engine.state import CONTIGUOUS
from simulator.recording import FINISHED, REJECTED, Recording


class _Replica:
    """One replica, rebuilt event by event."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.waiting = 0
        self.preempted = 0
        self.host_blocks = 0
        self.loading: list[int] = []  # with blocks to which KV is on its way
        self.lent: list[int] = []  # ended, with blocks that others read
        self.chunks: dict[int, int] = {}  # of the step being composed
        self.flights: list[dict[str, Any]] = []  # launched, not committed
        self.steps: list[dict[str, Any]] = []  # committed
        self.clock_s = -np.inf
        self.ends_s = (-np.inf, -np.inf)  # of the last two committed

    def holders(self) -> list[int]:
        """Those who have blocks: who runs, whose KV is on its way, whose KV is being read."""
        return self.running + self.loading + self.lent


# What the audit keeps of a step beside the columns of the recording.
NOT_RECORDED = {"unsampled", "idle", "most_kv_tokens", "shared_blocks"}


class _Audit:
    """Goes through the log once and collects what is wrong, in sentences."""

    def __init__(self, fleet: Fleet, recording: Recording) -> None:
        self.limits = fleet.engine.limits[0]
        self.recording = recording
        table = fleet.engine.requests
        self.max_tokens = (table["limit_tokens"] - table["prompt_tokens"]).tolist()
        # What a contiguous allocator counts with: declared, or where it is an oracle real.
        self.output = self.max_tokens
        if fleet.oracle:
            self.output = np.minimum(recording.requests.output_tokens, self.max_tokens).tolist()
        self.prompt = recording.requests.prompt_tokens.tolist()
        n = len(self.prompt)
        self.replicas = [_Replica() for _ in range(recording.replicas)]
        self.known = list(self.prompt)
        self.computed = [0] * n
        self.held = [0] * n
        self.on_host = [0] * n  # blocks in host memory
        self.copied = [0] * n  # blocks copied there and back
        self.drafts = [0] * n  # in the step being composed
        self.scheduled = [0] * n
        self.lost = [0] * n
        self.hits = [0] * n
        self.shared = [0] * n  # blocks found at the latest admission
        self.ended: set[int] = set()
        # Asynchronous scheduling: computed after the last token, which was in flight; less
        # what was lost with the last token in flight and so is not computed again.
        self.wasted = [0] * n
        self.token_s: list[list[float]] = [[] for _ in range(n)]
        # KV from other replicas: when it comes, and whose first token came with it.
        self.arrived_s = fleet.engine.remote.requests["arrived_s"].tolist()
        for i in np.flatnonzero(fleet.engine.remote.requests["has_token"]).tolist():
            self.known[i] += 1
            self.token_s[i].append(float(recording.outcome.first_token_s[i]))
        self.happened: Counter[tuple[int, int]] = Counter()
        self.wrong: list[str] = []

    def expect(self, holds: object, sentence: str) -> None:
        if not holds:
            self.wrong.append(sentence)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // int(self.limits["block_size"]))

    def take(self, kind: int, r: int, request: int, value: int, time_s: float) -> None:
        """One event of the log, whose columns these are."""
        replica = self.replicas[r]
        self.expect(
            time_s >= replica.clock_s,
            f"the clock goes back from {replica.clock_s} to {time_s}",
        )
        self.happened[kind, request] += 1
        if kind == log.ARRIVE:
            replica.waiting += 1
            arrival_s = self.recording.outcome.arrival_s[request]
            self.expect(arrival_s <= time_s, f"request {request} is queued before it arrives")
        elif kind in (log.ADMIT, log.RESUME):
            self._seat(replica, request, value, time_s)
        elif kind == log.PREEMPT:
            self._preempt(replica, request)
        elif kind == log.SWAP_OUT:
            self._swap_out(replica, request)
        elif kind == log.SWAP_IN:
            self._swap_in(replica, request)
        elif kind == log.CLAIM:
            self._claim(replica, request, value)
        elif kind == log.GIVE_BACK:
            replica.lent.remove(request)
            self.held[request] = self.computed[request] = self.shared[request] = 0
            self._check_blocks(replica, value, f"given back at {time_s}")
        elif kind == log.DRAFT:
            self.drafts[request] = value
        elif kind == log.SCHEDULE:
            replica.chunks[request] = value
        elif kind == log.ACCEPT:
            self._accept(replica.flights[0], request, value, time_s)
        elif kind == log.LAUNCH:
            self._launch(replica, value, time_s)
        elif kind == log.FINISH:
            self._sample(replica.flights[0], time_s)
            self.ended.add(request)
            if not self.limits["hold_finished"]:
                self._leave(replica, request)
        elif kind == log.COMMIT:
            self._commit(r, value, time_s)

    def _claim(self, replica: _Replica, request: int, hit_tokens: int) -> None:
        replica.waiting -= 1
        replica.loading.append(request)
        self.computed[request] = self.known[request] - 1
        self.held[request] = self.blocks_for(self.known[request])
        self.shared[request] = hit_tokens // int(self.limits["block_size"])

    def _seat(self, replica: _Replica, request: int, hit_tokens: int, time_s: float) -> None:
        replica.running.append(request)
        if request in replica.loading:
            replica.loading.remove(request)
            self.hits[request] += hit_tokens
            came = self.arrived_s[request] <= time_s
            self.expect(came, f"request {request} runs before its KV has come")
            return
        replica.waiting -= 1
        self.computed[request] = hit_tokens
        self.hits[request] += hit_tokens
        self.shared[request] = hit_tokens // int(self.limits["block_size"])
        if self.limits["allocator"] == CONTIGUOUS:
            self._reserve(replica, request)

    def _reserve(self, replica: _Replica, request: int) -> None:
        """A reservation lies in the pool, at its place, and touches no other."""
        assert self.recording.reservations is not None
        tokens = self.prompt[request] + self.output[request]
        blocks = self.blocks_for(tokens)
        if self.limits["buddy"]:
            blocks = 2 ** math.ceil(math.log2(blocks))
        starts = self.recording.reservations.start_block
        start = int(starts[request])
        self.expect(
            0 <= start <= self.limits["usable_blocks"] - blocks
            and not (self.limits["buddy"] and start % blocks),
            f"request {request} has {blocks} blocks from {start} on",
        )
        for other in replica.running:
            apart = starts[other] + self.held[other] <= start or start + blocks <= starts[other]
            self.expect(
                apart or other == request or not self.held[other],
                f"requests {other} and {request} have the same blocks",
            )
        self.held[request] = blocks

    def _preempt(self, replica: _Replica, request: int) -> None:
        self.lost[request] += self.computed[request]
        self.drafts[request] = 0
        self.computed[request] = self.held[request] = 0
        replica.running.remove(request)
        replica.waiting += 1
        replica.preempted += 1

    def _swap_out(self, replica: _Replica, request: int) -> None:
        self.on_host[request] = self.blocks_for(self.computed[request])
        self.copied[request] += self.on_host[request]
        self.held[request] = 0
        replica.running.remove(request)
        replica.waiting += 1
        replica.preempted += 1
        replica.host_blocks += self.on_host[request]
        room = int(self.limits["host_blocks"])
        self.expect(
            replica.host_blocks <= room,
            f"{replica.host_blocks} blocks are in host memory, which has room for {room}",
        )

    def _swap_in(self, replica: _Replica, request: int) -> None:
        self.expect(self.on_host[request] > 0, f"request {request} is not in host memory")
        replica.host_blocks -= self.on_host[request]
        self.copied[request] += self.on_host[request]
        self.on_host[request] = 0
        replica.running.append(request)
        replica.waiting -= 1

    def _leave(self, replica: _Replica, request: int) -> None:
        if self.limits["lends_kv"] and request in replica.running:
            replica.running.remove(request)
            replica.lent.append(request)
            return
        self.held[request] = self.computed[request] = 0
        if request in replica.running:
            replica.running.remove(request)
        else:
            replica.waiting -= 1  # preempted while its last token was in flight
            self.wasted[request] -= self.prompt[request] + len(self.token_s[request]) - 1

    def _launch(self, replica: _Replica, free: int, time_s: float) -> None:
        limits = self.limits
        for request, tokens in replica.chunks.items():
            self.expect(request in replica.running, f"request {request} computes without a seat")
            self.expect(tokens > 0, f"request {request} is scheduled with {tokens} tokens")
            self.computed[request] += tokens
            self.scheduled[request] += tokens
        if limits["hold_finished"]:
            if not any(self.held[request] for request in replica.running):
                longest = max(self.prompt[i] for i in replica.running)
                longest += max(self.max_tokens[i] for i in replica.running)
                for request in replica.running:
                    self.held[request] = self.blocks_for(longest)
        elif limits["allocator"] != CONTIGUOUS:
            for request in replica.chunks:
                needed = self.blocks_for(self.computed[request] + self.drafts[request])
                self.held[request] = max(self.held[request], needed)
        tokens = sum(replica.chunks.values())
        drafts = sum(self.drafts[request] for request in replica.chunks)
        seats = limits["batch_size"] if limits["hold_finished"] else limits["max_num_seqs"]
        if not limits["hold_finished"]:
            budget = int(limits["max_num_batched_tokens"])
            in_all = tokens + drafts
            self.expect(in_all <= budget, f"a step of {in_all} tokens exceeds {budget}")
        self.expect(len(replica.running) <= seats, f"{len(replica.running)} run on {seats} seats")
        sampling = [i for i in replica.chunks if self.computed[i] == self.known[i]]
        for request in sampling:
            self.known[request] += 1
        self._check_blocks(replica, free, f"launch at {time_s}")
        replica.flights.append(
            {
                "start_s": time_s,
                "scheduled_tokens": tokens,
                "running": len(replica.running),
                "waiting": replica.waiting,
                "kv_blocks": int(limits["usable_blocks"]) - free,
                "most_kv_tokens": sum(self.computed[i] for i in replica.holders()),
                "shared_blocks": sum(self.shared[i] for i in replica.holders()),
                "preempted": replica.preempted,
                "sampled_tokens": len(sampling),
                "rejected_tokens": drafts,
                "unsampled": sampling,
                "idle": [i for i in replica.running if i not in replica.chunks],
            }
        )
        for request in replica.chunks:
            self.drafts[request] = 0
        replica.chunks = {}
        replica.preempted = 0

    def _accept(self, flight: dict[str, Any], request: int, tokens: int, time_s: float) -> None:
        self.computed[request] += tokens
        self.known[request] += tokens
        self.scheduled[request] += tokens
        self.token_s[request] += [time_s] * tokens
        flight["scheduled_tokens"] += tokens
        flight["sampled_tokens"] += tokens
        flight["rejected_tokens"] -= tokens

    def _sample(self, flight: dict[str, Any], time_s: float) -> None:
        for request in flight["unsampled"]:
            if request in self.ended:
                self.wasted[request] += 1
                flight["sampled_tokens"] -= 1
            else:
                self.token_s[request].append(time_s)
        flight["unsampled"] = []

    def _commit(self, r: int, free: int, time_s: float) -> None:
        replica = self.replicas[r]
        flight = replica.flights.pop(0)
        self._sample(flight, time_s)
        # Asynchronous scheduling composes a step while the one before is running: its own, or
        # that of another engine that it steps together with.
        size = max(1, int(self.limits["group_size"]))
        group = self.replicas[r // size * size :][:size]
        before = [end for other in group for end in other.ends_s if end < time_s]
        flight["start_s"] = max(flight["start_s"], replica.clock_s, *before)
        if self.limits["hold_finished"] and self.ended.issuperset(replica.running):
            for request in list(replica.running):
                self._leave(replica, request)
        replica.steps.append(flight | {"end_s": time_s})
        replica.clock_s = time_s
        replica.ends_s = (replica.ends_s[-1], time_s)
        self._check_blocks(replica, free, f"commit at {time_s}")

    def _check_blocks(self, replica: _Replica, free: int, when: str) -> None:
        held = sum(self.held[i] for i in replica.holders())
        used = int(self.limits["usable_blocks"]) - free
        shared = sum(self.shared[i] for i in replica.holders())
        self.expect(
            held - shared <= used <= held,
            f"{when}: {used} blocks are gone from the pool, {held} are held ({shared} shared)",
        )

    def close(self, every_member_scheduled: bool, loans_open: bool) -> list[str]:
        """Compare what the log says with the recording."""
        outcome = self.recording.outcome
        for i in range(len(self.prompt)):
            self._close_request(i)
        steps = self.recording.steps
        for r, replica in enumerate(self.replicas):
            rows = np.flatnonzero(steps.replica == r)
            self.expect(len(rows) == len(replica.steps), f"replica {r} logs another step count")
            for row, step in zip(rows, replica.steps, strict=False):
                # Tokens in shared blocks count once; how often they are shared is not logged.
                most, shared = step["most_kv_tokens"], step["shared_blocks"]
                least = most - shared * int(self.limits["block_size"])
                self.expect(
                    least <= steps.kv_tokens[row] <= most,
                    f"step {row}: kv_tokens is {steps.kv_tokens[row]}, not in {least} ... {most}",
                )
                for name in step.keys() - NOT_RECORDED:
                    recorded = getattr(steps, name)[row]
                    self.expect(
                        recorded == step[name],
                        f"step {row}: {name} is {recorded} in the recording, {step[name]} here",
                    )
                if every_member_scheduled:
                    self.expect(not step["idle"], f"step {row}: {step['idle']} got no token")
            if (outcome.status[outcome.replica == r] == FINISHED).all():
                free = int(self.limits["usable_blocks"]) - sum(
                    self.held[i]
                    for i in np.flatnonzero(outcome.replica == r)
                    if not (loans_open and i in replica.lent)
                )
                self.expect(not replica.running, f"replica {r}: {replica.running} still run")
                self.expect(
                    free == self.limits["usable_blocks"], f"replica {r} holds blocks when idle"
                )
        self._close_gaps()
        return self.wrong

    def _close_request(self, i: int) -> None:
        outcome = self.recording.outcome
        ends = self.happened[log.FINISH, i] + self.happened[log.REJECT, i]
        status = outcome.status[i]
        before_arrival = outcome.replica[i] < 0
        expected = int(status != 0 and not (status == REJECTED and before_arrival))
        self.expect(ends == expected, f"request {i} ended {ends} times, its status is {status}")
        copied = int(outcome.swapped_blocks[i])
        self.expect(
            copied == self.copied[i], f"request {i}: {self.copied[i]} blocks copied, not {copied}"
        )
        if status != FINISHED:
            return
        self.expect(self.on_host[i] == 0, f"request {i} ended in host memory")
        times = self.token_s[i]
        self.expect(len(times) == outcome.generated_tokens[i], f"request {i}: {len(times)} tokens")
        first, last = (times[0], times[-1]) if times else (np.nan, np.nan)
        if self.limits["stream"]:
            self.expect(outcome.first_token_s[i] == first, f"request {i}: first token at {first}")
            self.expect(outcome.finished_s[i] == last, f"request {i}: finished at {last}")
        needed = self.prompt[i] + len(times) - 1
        saved = int(outcome.cached_tokens[i] - outcome.recomputed_tokens[i])
        self.expect(
            saved == self.hits[i] - self.lost[i],
            f"request {i} found {self.hits[i]} tokens and lost {self.lost[i]}, not {saved} in all",
        )
        self.expect(
            self.scheduled[i] == needed + self.lost[i] - self.hits[i] + self.wasted[i],
            f"request {i}: {self.scheduled[i]} tokens computed, {needed} needed, "
            f"{self.lost[i]} lost, {self.hits[i]} found, {self.wasted[i]} wasted",
        )

    def _close_gaps(self) -> None:
        gaps = self.recording.gaps
        recorded = np.sort(np.repeat(gaps.gap_s, gaps.count))
        ours = np.zeros(0)
        if self.limits["stream"]:
            ours = np.sort(np.concatenate([ours, *(np.diff(times) for times in self.token_s)]))
        self.expect(
            np.array_equal(recorded, ours), "the inter-token gaps are not those of the tokens"
        )


def violations(
    fleet: Fleet,
    recording: Recording,
    events: NDArray[Any],
    *,
    every_member_scheduled: bool,
    loans_open: bool = False,
) -> list[str]:
    """What is wrong with a run, in sentences; empty if it is sound.

    Parameters
    ----------
    fleet, recording, events : a run with an event log, and the log.
    every_member_scheduled : the policy gives each running request a token in every step, as
        chunked_prefill does under synchronous scheduling.
    loans_open : the clock stopped before all was served, so that KV may still be lent to decode.
    """
    audit = _Audit(fleet, recording)
    for event in events.tolist():
        audit.take(*event)
    return audit.close(every_member_scheduled, loans_open)
