"""All the memory of a run, taken before its first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_models import StepCost
from cost_models.kernel import CostTables
from simulator.engine import state
from simulator.engine.log import EVENT
from simulator.engine.state import (
    NEVER,
    NOBODY,
    AdapterSlots,
    Engine,
    FairShares,
    Lockstep,
    OffloadPool,
    PrefixPool,
    Records,
    RemoteKv,
    SwapSpace,
)

CACHE_LINE_BYTES = 64
LOG_STEPS = 1 << 16  # rows of the step log between two drains
LOG_LOSSES = 1 << 12  # and of the log of preemptions


def limits_record(limits: Mapping[str, float], *, order: int, coast: bool) -> Records:
    """(1,) LIMITS from names and values; those left out are 0."""
    record = np.zeros(1, state.LIMITS)
    record["max_queue"] = np.iinfo(np.int64).max
    record["stream"] = 1
    record["depth"] = 1
    record["order"] = order
    record["coast"] = coast
    for name, value in limits.items():
        record[name] = value
    return record


def allocate(
    limits: Records,
    *,
    replicas: int,
    requests: int,
    longest: int,
    segments: NDArray[np.int64],
    tenants: int,
    adapters: int = 0,
    cost: CostTables,
    events: bool,
    preferred_sizes: Sequence[int] = (),
    stage_shares: Sequence[float] = (),
    lockstep: Lockstep | None = None,
) -> Engine:
    """An engine in which nothing has happened yet.

    Parameters
    ----------
    requests : their number; `longest`: most tokens that one of them can come to.
    segments : (G, 2) int64 tag and length of the pieces of prompts.
    tenants : how many share the queue by service; 0 under another order than fair.
    adapters : LoRA adapters that requests ask for.
    preferred_sizes : of static batches.
    stage_shares : of the layers, of each stage of pipeline parallelism.
    lockstep : what replicas do as one; None where each steps by itself.
    """
    seats = min(max(int(limits["max_num_seqs"][0]), int(limits["batch_size"][0])), requests)
    drafts = int(limits["num_speculative_tokens"][0])
    fleet = np.zeros(replicas, state.REPLICA)
    for link in ("queue_head", "inbox_head", "inbox_tail"):
        fleet[link] = NOBODY
    fleet["wake_s"] = NEVER
    fleet["committed_s"] = np.nan
    fleet["free_blocks"] = limits["usable_blocks"][0]
    table = _aligned_zeros(requests, state.REQUEST)
    for link in ("next", "replica"):
        table[link] = NOBODY
    table["lost_s"] = NEVER
    for time in ("last_token_s", "admitted_s", "first_token_s", "finished_s"):
        table[time] = np.nan
    contiguous = limits["allocator"][0] == state.CONTIGUOUS
    known_adapters = adapters + 1 if limits["max_loras"][0] else 0
    lanes = np.full((replicas, max(1, tenants, adapters + 1)), NOBODY).astype(state.LANE)
    by_key = limits["order"][0] not in (state.FCFS, state.FAIR)
    slots = max(2, int(limits["depth"][0]))
    stages = np.zeros((replicas, len(stage_shares)), state.STAGE)
    stages["share"] = stage_shares
    engine = Engine(
        limits=limits,
        replicas=fleet,
        requests=table,
        running=np.zeros((replicas, seats), np.int64),
        flights=np.zeros((replicas, slots), state.STEP),
        lanes=lanes,
        heaps=np.zeros((replicas, requests + 1 if by_key else 0), state.WAITING),
        emitters=np.zeros((replicas, slots, seats), np.int64),
        steps=np.zeros(LOG_STEPS, state.STEP),
        # The busiest step brings so many, see `advance.has_room`.
        gaps_s=np.zeros(LOG_STEPS + seats * (1 + drafts), np.float64),
        losses=np.zeros(LOG_LOSSES + seats, state.LOSS),
        ended=np.zeros(requests, np.int64),
        # The log must take the busiest step, see `advance.has_room`.
        events=np.zeros(7 * requests + 4096 if events else 0, EVENT),
        counters=np.zeros(5, np.int64),
        phases=np.zeros((replicas, max(1, int(limits["block_size"][0]))), np.int64),
        extents=np.zeros((replicas, seats if contiguous else 0, 2), np.int64),
        prefix=_prefix_pool(
            limits[0], replicas, _holders(limits[0], seats, requests), longest, segments
        ),
        shares=FairShares(
            service=np.zeros((replicas, tenants), np.int64),
            last_left=np.zeros(replicas, np.int64),
        ),
        swap=_swap_space(limits[0], replicas, requests),
        adapters=AdapterSlots(
            tokens=np.zeros((replicas, known_adapters), np.int64),
            used_in=np.zeros((replicas, known_adapters), np.int64),
        ),
        offload=_offload_pool(limits[0], replicas),
        remote=_remote_kv(limits[0], replicas, requests),
        preferred_sizes=np.array(sorted(preferred_sizes), np.int64),
        drafts=np.zeros(requests if drafts else 0, np.int64),
        policy_memory=np.zeros((replicas, 8), np.float64),
        stages=stages,
        lockstep=lockstep or Lockstep(even_s=np.zeros(0), total_s=np.zeros(0)),
        cost=cost,
    )
    for r in range(replicas):
        empty_caches(engine, r)
    return engine


def _holders(limits: np.void, seats: int, requests: int) -> int:
    """Most requests that have blocks at once: more than run, where KV goes to other replicas."""
    if limits["lends_kv"] or limits["reads_kv"]:
        return min(requests, seats + int(limits["usable_blocks"]))
    return seats


def _remote_kv(limits: np.void, replicas: int, requests: int) -> RemoteKv:
    """Nothing is offered."""
    replicas, requests = (replicas, requests) if limits["reads_kv"] else (0, 0)
    offers = np.zeros(requests, state.REMOTE_KV)
    offers["claimed_s"] = offers["arrived_s"] = np.nan
    return RemoteKv(
        pools=np.zeros(replicas, state.REMOTE_POOL),
        requests=offers,
        claimed=np.zeros(requests, np.int64),
        count=np.zeros(1, np.int64),
    )


def _swap_space(limits: np.void, replicas: int, requests: int) -> SwapSpace:
    """Nobody is swapped out."""
    pools = np.zeros(replicas, state.HOST_POOL)
    pools["queue_head"] = NOBODY
    pools["free_blocks"] = limits["host_blocks"]
    return SwapSpace(
        pools=pools,
        requests=np.zeros(requests if limits["host_blocks"] else 0, state.HOST_KV),
    )


def _offload_pool(limits: np.void, replicas: int) -> OffloadPool:
    """A second tier of size 0 where there is none; `empty_caches` makes its ring."""
    size = int(limits["offload_blocks"])
    replicas = replicas if size else 0
    return OffloadPool(
        evicted=np.zeros((replicas, int(limits["usable_blocks"]) if replicas else 0), np.int64),
        entries=np.zeros((replicas, size + 1), state.HOST_BLOCK),
        buckets=np.full((replicas, 1 << (2 * size).bit_length()), NOBODY, np.int32),
    )


def _aligned_zeros(rows: int, dtype: np.dtype[Any]) -> Records:
    """Zeros that start at a cache line."""
    raw = np.zeros(rows * dtype.itemsize + CACHE_LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE_BYTES
    return raw[start : start + rows * dtype.itemsize].view(dtype)


def _prefix_pool(
    limits: np.void, replicas: int, seats: int, longest: int, segments: NDArray[np.int64]
) -> PrefixPool:
    """A pool of size 0 under another allocator; `empty_caches` makes its blocks free."""
    if limits["allocator"] != state.PREFIX:
        replicas, seats, longest = 0, 0, 0
    size = int(limits["usable_blocks"]) if replicas else 0
    num_buckets = 1 << max(1, (2 * size).bit_length())
    block_size = max(1, int(limits["block_size"]))
    width = -(-longest // block_size)
    table = np.zeros((replicas, seats), np.int64)
    table[:] = np.arange(seats)
    return PrefixPool(
        blocks=np.zeros((replicas, size), state.BLOCK),
        free=np.full((replicas, num_buckets), NOBODY, np.int32),
        buckets=np.full((replicas, num_buckets, 2), NOBODY, np.int32),
        tables=np.zeros((replicas, seats, width), np.int32),
        seats=table,
        phase_members=np.zeros((replicas, 2, max(seats, block_size)), np.int64),
        found=np.zeros((replicas, width), np.int32),
        segments=segments,
    )


def empty_caches(engine: Engine, r: int) -> None:
    """Forget the prefixes that replica `r` keeps, of which no request holds a block."""
    prefix, offload = engine.prefix, engine.offload
    if len(prefix.blocks):
        size = prefix.blocks.shape[1]
        prefix.blocks[r] = np.zeros((), state.BLOCK)
        prefix.blocks["place"][r] = prefix.free[r, :size] = np.arange(size)
        engine.replicas["free_front"][r], engine.replicas["free_back"][r] = 0, size
    if len(offload.entries):
        ring = np.arange(offload.entries.shape[1])
        offload.entries[r] = np.zeros((), state.HOST_BLOCK)
        offload.entries["newer"][r], offload.entries["older"][r] = (
            np.roll(ring, -1),
            np.roll(ring, 1),
        )
    for buckets in (prefix.buckets, offload.buckets):
        if len(buckets):
            buckets[r] = NOBODY
    engine.replicas["evicted_blocks"][r] = 0


def empty_engine() -> Engine:
    """An engine with nothing to do; every engine has its type."""
    return allocate(
        limits_record({}, order=state.FCFS, coast=True),
        replicas=1,
        requests=0,
        longest=0,
        segments=np.zeros((0, 2), np.int64),
        tenants=0,
        cost=StepCost.linear(1.0, 0.0).tables(1, 1),
        events=False,
    )
