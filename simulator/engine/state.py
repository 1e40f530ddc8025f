"""The state of a fleet: flat tables, one row per replica and one per request.

A table is an array of records, so that the five fields a step touches of a request lie in
one cache line, and the whole state is one tuple of a dozen arrays: thin enough to pass to
every kernel.  All of it is allocated before the first step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.kernel import CostTables

Records = NDArray[Any]

# Where a request is.
ABSENT, QUEUED, RUNNING, DONE, REJECTED = 0, 1, 2, 3, 4

NOBODY = -1  # an empty link
NEVER = np.inf

# Allocators (kv_cache/).
PAGED, CONTIGUOUS = 0, 1

REQUEST = np.dtype(
    [
        # what a step touches
        ("computed_tokens", "i8"),  # tokens whose KV exists or is being computed
        ("known_tokens", "i8"),  # prompt, then every sampled token
        ("held_blocks", "i8"),
        ("scheduled_tokens", "i8"),  # tokens in the step being composed or running
        ("last_token_s", "f8"),
        ("end_tokens", "i8"),  # known_tokens at which it ends
        ("prompt_tokens", "i8"),
        ("state", "i8"),  # ABSENT ... REJECTED
        # the waiting queue and the inbox
        ("key", "f8"),  # smaller is served first
        ("arrival_s", "f8"),
        ("id_rank", "i8"),  # last tie-break
        ("left", "i8"),  # children in the queue's heap
        ("right", "i8"),
        ("next", "i8"),  # successor in the inbox
        # what a policy may look at
        ("max_tokens", "i8"),  # declared by the client
        ("order_key", "f8"),  # key under an order other than fcfs
        # what is reported
        ("replica", "i8"),
        ("admitted_s", "f8"),
        ("first_token_s", "f8"),
        ("finished_s", "f8"),
        ("preemptions", "i8"),
        ("recomputed_tokens", "i8"),
        ("cached_tokens", "i8"),
        ("reject_reason", "i8"),
        ("extent_start", "i8"),  # first block of a contiguous reservation
    ],
    align=True,
)

REPLICA = np.dtype(
    [
        ("clock_s", "f8"),  # when the next step may start
        ("wake_s", "f8"),  # when a policy that waits wants to be asked again
        ("stalled", "i8"),  # the policy scheduled nothing: ask again after a change
        ("running", "i8"),  # members of the running list
        ("waiting", "i8"),  # members of the waiting queue
        ("outstanding", "i8"),  # waiting, running or still in the inbox
        ("queue_root", "i8"),
        ("front_key", "f8"),  # next key in front of an fcfs queue
        ("back_key", "f8"),  # next key at its end
        ("inbox_head", "i8"),
        ("inbox_tail", "i8"),
        ("free_blocks", "i8"),
        ("extents", "i8"),  # contiguous reservations held
        ("kv_tokens", "i8"),  # tokens in held blocks
        # the step being composed or running
        ("pending", "i8"),  # launched, not committed
        ("step_start_s", "f8"),
        ("step_end_s", "f8"),
        ("gpu_s", "f8"),
        ("host_s", "f8"),
        ("preempted", "i8"),
        ("tokens", "i8"),  # useful tokens
        ("padding", "i8"),
        ("bubbles", "i8"),
        ("decode_seqs", "i8"),
        ("context", "i8"),
        ("max_context", "i8"),
        ("prefill_seqs", "i8"),
        ("prefill_tokens", "i8"),
        ("step_running", "i8"),
        ("step_waiting", "i8"),
        ("step_blocks", "i8"),
        ("step_kv_tokens", "i8"),
        # static batches
        ("padded_tokens", "i8"),  # length every prompt of the batch is padded to; 0: none
        ("batch_steps", "i8"),  # decode steps of the batch so far
        ("done", "i8"),  # rows that are finished and keep their seat
    ],
    align=True,
)

LIMITS = np.dtype(
    [
        ("max_num_seqs", "i8"),
        ("max_num_batched_tokens", "i8"),
        ("max_model_len", "i8"),
        ("block_size", "i8"),
        ("usable_blocks", "i8"),
        ("watermark_blocks", "i8"),
        ("long_prefill_token_threshold", "i8"),
        ("chunked_prefill", "i8"),
        ("reserve_full_isl", "i8"),
        ("keyed_order", "i8"),  # 0: fcfs; 1: by order_key, also when choosing victims
        ("max_queue", "i8"),
        ("allocator", "i8"),
        ("batch_size", "i8"),  # static
        ("max_wait_s", "f8"),  # static
        ("hold_finished", "i8"),  # static: finished rows keep their seat
        ("stream", "i8"),  # static: 0: results come back with the batch
        ("coast", "i8"),  # jump over steps that only decode
        ("victims_only_step_s", "f8"),  # a step that preempted and scheduled nothing
    ],
    align=True,
)

# One row per committed step; columns as in simulator.recording.Steps.
STEP = np.dtype(
    [
        ("start_s", "f8"),
        ("end_s", "f8"),
        ("gpu_s", "f8"),
        ("host_s", "f8"),
        ("context_tokens", "i8"),
        ("kv_tokens", "i8"),
        ("replica", "i4"),
        ("scheduled_tokens", "i4"),
        ("padding_tokens", "i4"),
        ("bubble_seqs", "i4"),
        ("decode_seqs", "i4"),
        ("prefill_seqs", "i4"),
        ("prefill_tokens", "i4"),
        ("sampled_tokens", "i4"),
        ("streaming_seqs", "i4"),  # sampled here and in the step that ended at start_s
        ("running", "i4"),
        ("waiting", "i4"),
        ("kv_blocks", "i4"),
        ("preempted", "i4"),
    ],
    align=True,
)

# Places in `Engine.counters`.
NUM_STEPS, NUM_GAPS, NUM_EVENTS, NUM_ENDED = 0, 1, 2, 3


class Engine(NamedTuple):
    """Everything that a kernel can read or write.

    Attributes
    ----------
    limits : (1,) LIMITS
    replicas : (R,) REPLICA
    requests : (N,) REQUEST
    running : (R, S) int64 rows of `requests`, in order of their latest admission
    steps : (capacity,) STEP, drained by the caller when full
    gaps_s : (capacity,) float64, gaps between tokens that were not in successive steps
    ended : (N,) int64 rows of `requests` in the order in which they ended
    events : (capacity,) log.EVENT; capacity 0 switches the event log off
    counters : (4,) int64 rows used in steps, gaps_s, events and ended
    phases : (R, block_size) int64 scratch of the coasting kernel
    extents : (R, S + 1, 2) int64 start and end block of contiguous reservations
    cost : prices of a step
    """

    limits: Records
    replicas: Records
    requests: Records
    running: NDArray[np.int64]
    steps: Records
    gaps_s: NDArray[np.float64]
    ended: NDArray[np.int64]
    events: Records
    counters: NDArray[np.int64]
    phases: NDArray[np.int64]
    extents: NDArray[np.int64]
    cost: CostTables
