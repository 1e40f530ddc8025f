"""What a run leaves behind: the raw material of every metric and plot."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from simulator.workload.requests import Requests

UNFINISHED, FINISHED, REJECTED = 0, 1, 2
STATUS_NAMES = ("unfinished", "finished", "rejected")

PROMPT_TOO_LONG, NEVER_FITS, QUEUE_FULL = 1, 2, 3
REJECT_REASONS = (
    "",
    "prompt_too_long",  # prompt_tokens >= max_model_len
    "never_fits",  # needs more KV blocks than the replica has, even alone
    "queue_full",  # the replica's waiting queue held max_queue requests
)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Outcome:
    """One row per request, in the order of `Requests`.

    Times are in simulated seconds and NaN where the event did not happen.
    """

    status: NDArray[np.int8]  # index into STATUS_NAMES
    reject_reason: NDArray[np.int8]  # index into REJECT_REASONS
    replica: NDArray[np.int64]  # -1: never routed
    arrival_s: NDArray[np.float64]  # when it really arrived at the router
    admitted_s: NDArray[np.float64]  # start of the first step it was in
    first_token_s: NDArray[np.float64]
    finished_s: NDArray[np.float64]
    generated_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    recomputed_tokens: NDArray[np.int64]  # lost at preemptions and not found in the cache
    cached_tokens: NDArray[np.int64]  # found in the prefix cache, computed by others
    swapped_blocks: NDArray[np.int64]  # KV blocks copied to host memory and back


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Steps:
    """One row per engine step, in order of its start on each replica."""

    replica: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]  # start_s + gpu_s + host_s (synchronous scheduling)
    gpu_s: NDArray[np.float64]
    host_s: NDArray[np.float64]
    overlapped_s: NDArray[np.float64]  # more of its pass, beside the step before (pipeline stages)
    scheduled_tokens: NDArray[np.int32]  # useful tokens (no padding, no rejected drafts)
    padding_tokens: NDArray[np.int32]  # computed beside them: padding of a static batch
    bubble_seqs: NDArray[np.int32]  # finished rows that a static batch still computes
    decode_seqs: NDArray[np.int32]  # useful sequences with one token of decode
    prefill_seqs: NDArray[np.int32]  # sequences with a prefill chunk
    prefill_tokens: NDArray[np.int32]  # their tokens, without padding
    context_tokens: NDArray[np.int64]  # Σ context of the decode sequences
    sampled_tokens: NDArray[np.int32]  # output tokens that this step produced
    running: NDArray[np.int32]  # requests holding a seat during the step
    waiting: NDArray[np.int32]  # requests in the queue after scheduling
    kv_blocks: NDArray[np.int32]  # blocks held during the step (reserved ones included)
    largest_gap_blocks: NDArray[np.int32]  # most free blocks in one piece (paged: all of them)
    kv_tokens: NDArray[np.int64]  # KV slots of those blocks that hold a token
    preempted: NDArray[np.int32]  # requests preempted while composing this step
    rejected_tokens: NDArray[np.int32]  # drafted by speculation and found wrong


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class InterTokenGaps:
    """Every gap between two consecutive output tokens of a request, pooled.

    A decode step gives the same gap to all streams that were in the step before, so
    gaps come with a weight instead of one by one.
    """

    gap_s: NDArray[np.float64]
    count: NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Losses:
    """Each stretch in which a request had lost its KV blocks: from there to its next token.

    It waits to be admitted again and recomputes what it had.  A token that was in flight
    at the loss still comes; the stretch then starts behind it.
    """

    request: NDArray[np.int64]  # row of it
    from_s: NDArray[np.float64]
    until_s: NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Reservations:
    """What a contiguous allocator set aside for each request, from admitted_s to finished_s."""

    start_block: NDArray[np.int32]  # of its replica's pool; 0 where it was never admitted
    blocks: NDArray[np.int32]
    tokens: NDArray[np.int64]  # that it was meant for


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Leases:
    """Each stretch for which a replica was paid for, one row each, in order of `ordered_s`.

    Times are in simulated seconds, NaN where that did not happen before the end of the run.
    """

    replica: NDArray[np.int64]
    ordered_s: NDArray[np.float64]  # from here on it is paid for
    ready_s: NDArray[np.float64]  # it served from here on
    drained_s: NDArray[np.float64]  # it got no new requests from here on
    released_s: NDArray[np.float64]  # up to here it was paid for

    def until(self, end_s: float) -> Leases:
        """Without what happens after `end_s`."""
        rows = self.ordered_s < end_s
        times = {field.name: getattr(self, field.name)[rows] for field in fields(self)[1:]}
        cut = {name: np.where(column <= end_s, column, np.nan) for name, column in times.items()}
        return Leases(replica=self.replica[rows], **cut)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Handovers:
    """What went from prefill to decode replicas, where these are pools of their own.

    One row per request; NaN or -1 where it was not handed over.

    Attributes
    ----------
    prefill, decode : what happened in each pool, as if the other were its clients or servers.
    """

    prefill: Recording
    decode: Recording
    replica: NDArray[np.int64]  # of the decode pool, counted behind those of prefill
    prefilled_s: NDArray[np.float64]  # its prompt was computed
    claimed_s: NDArray[np.float64]  # the decode replica took blocks for its KV
    arrived_s: NDArray[np.float64]  # the last of its KV was there
    pulled_blocks: NDArray[np.int64]  # KV blocks brought over


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Recording:
    """A run's requests, what became of them, its steps, inter-token gaps and preemptions.

    Attributes
    ----------
    end_s : simulated time at which the run ended.
    usable_kv_blocks : blocks a replica can hand out (num_gpu_blocks - 1 when paged); of pools,
        the larger number.
    replicas : number of replicas, at most if it changed.
    reservations : None where blocks are taken as they are filled.
    adapter_loads : LoRA adapters copied to slots of the GPUs.
    adapter_load_s : seconds that steps of all replicas waited for it.
    transfer_s : seconds that steps of all replicas waited for KV that preemptions copied, beyond
        what they computed meanwhile.
    stored_blocks, loaded_blocks : copied to and from the prefix cache's second tier.
    leases : None where all replicas were there all the time.
    handovers : None where replicas compute prompts and generate; with pools for each, the
        replicas of prefill come first.
    """

    requests: Requests
    outcome: Outcome
    steps: Steps
    gaps: InterTokenGaps
    losses: Losses
    end_s: float
    usable_kv_blocks: int
    block_size: int
    replicas: int
    reservations: Reservations | None = None
    adapter_loads: int = 0
    adapter_load_s: float = 0.0
    transfer_s: float = 0.0
    stored_blocks: int = 0
    loaded_blocks: int = 0
    leases: Leases | None = None
    handovers: Handovers | None = None

    def kv_blocks_of_replicas(self) -> NDArray[np.int64]:
        """(R,) blocks that each replica can hand out."""
        if self.handovers is None:
            return np.full(self.replicas, self.usable_kv_blocks)
        pools = (self.handovers.prefill, self.handovers.decode)
        return np.concatenate([pool.kv_blocks_of_replicas() for pool in pools])

    def pools(self) -> list[tuple[str, Recording, int]]:
        """(name, recording, number of its first replica) of each pool; itself without pools."""
        if self.handovers is None:
            return [("", self, 0)]
        prefill = self.handovers.prefill
        return [
            ("prefill ", prefill, 0),
            ("decode ", self.handovers.decode, prefill.replicas),
        ]

    def pool_of(self, replica: int) -> tuple[str, Recording, int]:
        """(name, recording, number in it) of the pool that has a replica."""
        name, pool, first = [one for one in self.pools() if one[2] <= replica][-1]
        return name, pool, replica - first
