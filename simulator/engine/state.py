"""The state of a fleet: flat tables, one row per replica and one per request.

A table is an array of records, so that the fields a step touches of a request lie in one
cache line.  All of it is allocated before the first step; kernels get one pointer to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models.kernel import CostTables
from simulator.engine.struct import Struct

Records = NDArray[Any]

# Where a request is.
ABSENT, QUEUED, RUNNING, DONE, REJECTED = 0, 1, 2, 3, 4
LOADING = 5  # its KV is on the way to blocks that it holds

NOBODY = -1  # an empty link
NEVER = np.inf

# Allocators (kv_cache/).
PAGED, CONTIGUOUS, PREFIX = 0, 1, 2

# Orders of the waiting queue (schedulers/orders.py): in order of arrival; by `order_key`; the
# same with vLLM's victims on a full tie, for replays; by what is left of it; by its distance
# from the arrival; by the service of the tenant.
FCFS, BY_KEY, BY_PRIORITY, BY_REMAINING, BY_DEADLINE, FAIR = 0, 1, 2, 3, 4, 5

REQUEST = np.dtype(
    [
        # first cache line: what a step touches of those who run
        ("computed_tokens", "i4"),  # tokens whose KV exists or is being computed
        ("known_tokens", "i4"),  # prompt, then every sampled token
        ("held_blocks", "i4"),
        ("scheduled_tokens", "i4"),  # tokens in the step being composed
        ("in_flight", "i4"),  # known tokens that running steps will sample
        ("prompt_tokens", "i4"),
        ("limit_tokens", "i4"),  # prompt and declared max_tokens, within max_model_len
        ("end_tokens", "i4"),  # known_tokens at which it really ends
        ("full_blocks", "i4"),  # prefix allocator: those of which all tokens are known
        ("state", "i4"),  # ABSENT ... REJECTED
        ("last_token_s", "f8"),
        ("first_token_s", "f8"),
        ("lost_s", "f8"),  # when it lost its KV blocks; NEVER once it goes on from there
        # second: its coming and going
        ("arrival_s", "f8"),
        ("order_key", "f8"),  # what its key comes from; with lanes, its place among all
        ("admitted_s", "f8"),
        ("finished_s", "f8"),
        ("id_rank", "i4"),  # last tie-break
        ("next", "i4"),  # successor in the inbox or in a queue
        ("replica", "i4"),
        ("lane", "i4"),  # its tenant under the order fair, its adapter with LoRA, else 0
        ("preemptions", "i4"),
        ("recomputed_tokens", "i4"),
        ("cached_tokens", "i4"),
        ("reject_reason", "i4"),
        # third: KV blocks with a place or an identity
        ("chain", "i8"),  # prefix allocator: hash of its last block that has one
        ("segment", "i4"),  # where the next block starts: a segment of the prompt ...
        ("segment_start", "i4"),  # ... and the position in the prompt at which that starts
        ("seat", "i4"),  # row of its block table
        ("shareable_blocks", "i4"),  # leading blocks that have a hash once they are full
        ("first_segment", "i4"),  # the content of its prompt
        ("num_segments", "i4"),
        ("reserve_blocks", "i4"),  # contiguous allocator: size of its reservation ...
        ("extent_start", "i4"),  # ... and its first block
        ("unused", "i8", (3,)),  # fills the cache line
    ],
    align=True,
)

# A list of waiting requests; `tail` counts where `head` is somebody.
LANE = np.dtype([("head", "i8"), ("tail", "i8")], align=True)

# A request in the heap of an order by key: less goes first, by `key`, arrival and id.
WAITING = np.dtype(
    [("key", "f8"), ("arrival_s", "f8"), ("id_rank", "i4"), ("request", "i4")], align=True
)

REPLICA = np.dtype(
    [
        ("clock_s", "f8"),  # when the next step may start
        ("wake_s", "f8"),  # when a policy that waits wants to be asked again
        ("stalled", "i8"),  # the policy scheduled nothing: ask again after a change
        ("running", "i8"),  # members of the running list
        ("waiting", "i8"),  # members of the waiting queue
        ("outstanding", "i8"),  # waiting, running or still in the inbox
        ("queue_head", "i8"),  # who is served next
        ("heap_size", "i8"),  # entries of a queue by key
        ("back_key", "i8"),  # next place behind all lanes, and in front of them
        ("front_key", "i8"),
        ("inbox_head", "i8"),
        ("inbox_tail", "i8"),
        ("free_blocks", "i8"),
        ("extents", "i8"),  # contiguous reservations held
        ("free_front", "i8"),  # first place of the prefix allocator's free list ...
        ("free_back", "i8"),  # ... and the one behind its last
        ("seated", "i8"),  # block tables in use by the prefix allocator
        ("kv_tokens", "i8"),  # tokens in held blocks
        ("pending", "i8"),  # steps launched and not committed
        ("oldest", "i8"),  # row of the first of them in `Engine.flights`
        ("gpu_free_s", "f8"),  # end of the last of them
        ("committed_s", "f8"),  # end of the last committed step
        ("preempted", "i8"),  # in the step being composed
        ("drafted_tokens", "i8"),  # in the step being composed, by speculation
        ("extra_gpu_s", "f8"),  # time on the GPU that this step takes beside its price ...
        ("extra_host_s", "f8"),  # ... and of the engine's own code
        ("beside_gpu_s", "f8"),  # copies of this step that go on while it computes
        ("transfer_s", "f8"),  # so far waited for KV that preemptions copied to the host and back
        ("evicted_blocks", "i8"),  # from the prefix cache, not yet taken over by its second tier
        ("stored_blocks", "i8"),  # copied to the second tier so far ...
        ("loaded_blocks", "i8"),  # ... and from there
        ("adapter_loads", "i8"),  # to a slot on the GPU, so far
        ("adapter_steps", "i8"),  # steps composed so far, for the slots' LRU
        ("step_running", "i8"),  # members of the running list in the latest step
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
        # rules of earlier releases, see simulator.schedulers.releases
        ("cap_alone", "i8"),
        ("self_preemption_ends_scan", "i8"),
        ("unhashed_last", "i8"),
        ("skips_unchunkable", "i8"),
        ("order", "i8"),  # FCFS ... FAIR, also when choosing victims
        ("max_queue", "i8"),
        ("allocator", "i8"),
        ("buddy", "i8"),  # contiguous allocator: aligned powers of two, not first fit
        ("batch_size", "i8"),  # static
        ("max_wait_s", "f8"),  # static
        ("hold_finished", "i8"),  # static: finished rows keep their seat
        ("stream", "i8"),  # static: 0: results come back with the batch
        ("host_blocks", "i8"),  # room for swapped-out KV in host memory
        ("copy_s_per_block", "f8"),  # to copy a block there or back
        ("overlap_swap", "i8"),  # preempted requests' blocks are copied while the step computes
        ("offload_blocks", "i8"),  # room for evicted prefixes in host memory
        # options of the step, see simulator.schedulers.step_options
        ("num_speculative_tokens", "i8"),
        ("acceptance_rate", "f8"),
        ("draft_cost", "f8"),  # of a draft's step, as a share of the model's
        ("structured_share", "f8"),
        ("grammar_s_per_seq", "f8"),
        # LoRA, see simulator.schedulers.multi_lora
        ("max_loras", "i8"),  # slots for adapters on the GPU
        ("lora_load_s", "f8"),  # to fill a slot
        ("lora_step_s", "f8"),  # that a step with any adapter takes longer ...
        ("lora_adapter_s", "f8"),  # ... for each adapter in it
        ("lora_token_s", "f8"),  # ... and for each token that goes through one
        ("luck", "i8"),  # seed of what is drawn from a hash
        ("coast", "i8"),  # jump over steps that only decode
        ("hash_when_computed", "i8"),  # prefix allocator: not already when it is scheduled
        # pools of their own for prompts and for decodes, see simulator.engine.remote_kv
        ("lends_kv", "i8"),  # who has ended keeps its blocks until they have been read
        ("reads_kv", "i8"),  # KV of prompts comes from elsewhere
        ("depth", "i8"),  # steps in flight: 1 synchronous, 2 asynchronous; one for each stage
        ("one_in_flight", "i8"),  # no step is composed for a token that another one will sample
        ("group_size", "i8"),  # replicas that step together, see simulator.engine.lockstep
        ("count_steps", "i8"),  # the clock counts steps, for recordings that do
    ],
    align=True,
)

# One row per step; columns as in simulator.recording.Steps.
STEP = np.dtype(
    [
        ("start_s", "f8"),
        ("end_s", "f8"),
        ("gpu_s", "f8"),
        ("host_s", "f8"),
        ("overlapped_s", "f8"),  # of its pass, beside the step before: simulator.engine.pipeline
        ("gap_s", "f8"),  # since the end of the step before: what streaming clients see
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
        ("streaming_seqs", "i4"),  # sampled here and in the step before
        ("running", "i4"),
        ("waiting", "i4"),
        ("kv_blocks", "i4"),
        ("largest_gap_blocks", "i4"),
        ("preempted", "i4"),
        ("rejected_tokens", "i4"),
    ],
    align=True,
)

# A stage of pipeline parallelism: its share of the layers, and when it has done what it has.
STAGE = np.dtype([("share", "f8"), ("free_s", "f8")], align=True)

# A KV block of the prefix allocator.
BLOCK = np.dtype(
    [
        ("hash", "i8"),
        ("users", "i4"),
        ("hashed", "i4"),
        ("place", "i4"),  # in the free list, if nobody uses it
        ("bucket_before", "i4"),  # neighbours in its bucket of the hash table
        ("bucket_after", "i4"),
    ],
    align=True,
)

# A request without its KV blocks: from the loss to its next token; see recording.Losses.
LOSS = np.dtype([("request", "i8"), ("from_s", "f8"), ("until_s", "f8")], align=True)
# KV in host memory: of a replica, and of a request.
HOST_POOL = np.dtype([("queue_head", "i8"), ("free_blocks", "i8")], align=True)
HOST_KV = np.dtype([("held_blocks", "i8"), ("moved_blocks", "i8")], align=True)

# Requests of a replica whose KV is on its way, in a list; and what is known of each.
REMOTE_POOL = np.dtype([("first", "i8"), ("last", "i8"), ("loading", "i8")], align=True)
REMOTE_KV = np.dtype(
    [
        ("offered", "i8"),  # another replica has the KV of its prompt
        ("has_token", "i8"),  # ... and has sampled the first token that the client gets
        ("claimed_s", "f8"),  # when it took blocks for it
        ("arrived_s", "f8"),  # NEVER until that is known
        ("pulled_blocks", "i8"),
    ],
    align=True,
)

# A block of the prefix cache's second tier.
HOST_BLOCK = np.dtype(
    [
        ("hash", "i8"),
        ("older", "i4"),  # neighbours in the LRU
        ("newer", "i4"),
        ("bucket_after", "i4"),
        ("used", "i4"),
    ],
    align=True,
)

# Places in `Engine.counters`.
NUM_STEPS, NUM_GAPS, NUM_EVENTS, NUM_ENDED, NUM_LOSSES = 0, 1, 2, 3, 4


class PrefixPool(Struct):
    """Blocks with an identity; all arrays are empty under another allocator.

    Attributes
    ----------
    blocks : (R, num_blocks) BLOCK
    free : (R, F) int32 blocks that nobody uses, a ring, see `kv_cache.free_list`; F a power
        of 2, at least twice the blocks
    buckets : (R, T, 2) int32 first and last block of each bucket of the hash table, T a
        power of 2
    tables : (R, S, W) int32 blocks of each seat's request, in order
    seats : (R, S) int64 stack of free rows of `tables`
    phase_members : (R, 2, max(S, block_size)) int64 scratch of the coasting kernel: who is
        at the same place of a block; first by place, then by member
    found : (R, W) int32 blocks that the latest look-up found
    segments : (G, 2) int64 tag and length of the pieces of prompts, see Requests
    """

    blocks: Records
    free: NDArray[np.int32]
    buckets: NDArray[np.int32]
    tables: NDArray[np.int32]
    seats: NDArray[np.int64]
    phase_members: NDArray[np.int64]
    found: NDArray[np.int32]
    segments: NDArray[np.int64]


class FairShares(Struct):
    """Who has been served how much; all arrays are empty under another order than fair.

    Attributes
    ----------
    service : (R, T) int64 counter of each tenant: weighted tokens, lifted where it came back
    last_left : (R,) int64 the tenant that left the queue last
    """

    service: NDArray[np.int64]
    last_left: NDArray[np.int64]


class Lockstep(Struct):
    """What replicas that step together do as one; empty arrays where each steps by itself.

    Attributes
    ----------
    even_s : (C + 1,) seconds by the tokens of the replica with most, to which a CUDA graph
        pads all; beyond its end
    total_s : (M + 1,) seconds by the tokens of all of them; along its last piece beyond
    """

    even_s: NDArray[np.float64]
    total_s: NDArray[np.float64]


class SwapSpace(Struct):
    """KV that preemptions moved to host memory.

    Attributes
    ----------
    pools : (R,) HOST_POOL free blocks, and the first of those who wait to come back
    requests : (N,) HOST_KV blocks there, and blocks copied so far, out and in; (0,) for a
        replica without room in host memory
    """

    pools: Records
    requests: Records


class RemoteKv(Struct):
    """KV that comes from other replicas; all arrays are empty where none does.

    Attributes
    ----------
    pools : (R,) REMOTE_POOL
    requests : (N,) REMOTE_KV
    claimed : (N,) int64 rows of `requests` in the order in which they claimed blocks
    count : (1,) int64 how many have
    """

    pools: Records
    requests: Records
    claimed: NDArray[np.int64]
    count: NDArray[np.int64]


class AdapterSlots(Struct):
    """LoRA adapters, of which number 0 is the model itself; (R, 0) arrays without any.

    Attributes
    ----------
    tokens : (R, A + 1) int64 scratch: tokens of each in the step being composed; -1 none
    used_in : (R, A + 1) int64 the latest step of those that have a slot; 0: has none
    """

    tokens: NDArray[np.int64]
    used_in: NDArray[np.int64]


class OffloadPool(Struct):
    """The prefix cache's second tier in host memory; all arrays are empty without one.

    Attributes
    ----------
    evicted : (R, E) int64 hashes that the GPU has evicted, a ring
    entries : (R, H + 1) HOST_BLOCK; the last is the anchor of the circular LRU
    buckets : (R, T) int32 first block of each bucket of the hash table, T a power of 2
    """

    evicted: NDArray[np.int64]
    entries: Records
    buckets: NDArray[np.int32]


class Engine(Struct):
    """Everything that a kernel can read or write.

    Attributes
    ----------
    limits : (1,) LIMITS
    replicas : (R,) REPLICA
    requests : (N,) REQUEST
    running : (R, S) int64 rows of `requests`, in order of their latest admission
    flights : (R, F) STEP, launched steps, a ring; F is 2, or more with more stages
    lanes : (R, L) LANE, queues in order of arrival: one, or one for each tenant under fair,
        or for the model itself and each adapter with LoRA
    heaps : (R, N + 1) WAITING, the queues of an order by key; (R, 0) under another
    emitters : (R, F, S) int64 rows of `requests` for which each flight samples a token
    steps : (capacity,) STEP, committed steps, drained by the caller when full
    gaps_s : (capacity,) float64, gaps between tokens that were not in successive steps
    losses : (capacity,) LOSS, preemptions that are over
    ended : (N,) int64 rows of `requests` in the order in which they ended
    events : (capacity,) log.EVENT; capacity 0 switches the event log off
    counters : (5,) int64 rows used in steps, gaps_s, events, ended and losses
    phases : (R, block_size) int64 scratch of the coasting kernel
    extents : (R, S, 2) int64 start and end block of contiguous reservations
    prefix : the blocks of the prefix allocator
    shares : the tenants' service under the order fair
    swap : KV in host memory
    offload : evicted prefixes in host memory
    remote : KV from other replicas
    adapters : LoRA adapters
    preferred_sizes : (K,) int64 sizes of static batches that need not wait, ascending
    drafts : (N,) int64 tokens that speculation adds to a request's step; (0,) without
    policy_memory : (R, 8) float64 what a policy keeps from step to step, its own to use; 0
        at first
    stages : (R, P) STAGE of pipeline parallelism; (R, 0) without
    lockstep : work of replicas that step together
    cost : prices of a step
    """

    limits: Records
    replicas: Records
    requests: Records
    running: NDArray[np.int64]
    flights: Records
    lanes: Records
    heaps: Records
    emitters: NDArray[np.int64]
    steps: Records
    gaps_s: NDArray[np.float64]
    losses: Records
    ended: NDArray[np.int64]
    events: Records
    counters: NDArray[np.int64]
    phases: NDArray[np.int64]
    extents: NDArray[np.int64]
    prefix: PrefixPool
    shares: FairShares
    swap: SwapSpace
    offload: OffloadPool
    remote: RemoteKv
    adapters: AdapterSlots
    preferred_sizes: NDArray[np.int64]
    drafts: NDArray[np.int64]
    policy_memory: NDArray[np.float64]
    stages: Records
    lockstep: Lockstep
    cost: CostTables
