"""All the memory of a run, taken before its first step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cost_models import StepCost
from cost_models.kernel import CostTables
from simulator.engine import state
from simulator.engine.log import EVENT
from simulator.engine.state import NEVER, NOBODY, Engine, Records

LOG_STEPS = 1 << 16  # rows of the step log between two drains


def limits_record(limits: Mapping[str, float], *, keyed_order: bool, coast: bool) -> Records:
    """(1,) LIMITS from names and values; those left out are 0."""
    record = np.zeros(1, state.LIMITS)
    record["max_queue"] = np.iinfo(np.int64).max
    record["stream"] = 1
    record["keyed_order"] = keyed_order
    record["coast"] = coast
    for name, value in limits.items():
        record[name] = value
    return record


def allocate(
    limits: Records, *, replicas: int, requests: int, cost: CostTables, events: bool
) -> Engine:
    """An engine in which nothing has happened yet."""
    seats = min(max(int(limits["max_num_seqs"][0]), int(limits["batch_size"][0])), requests)
    fleet = np.zeros(replicas, state.REPLICA)
    for link in ("queue_root", "inbox_head", "inbox_tail"):
        fleet[link] = NOBODY
    fleet["wake_s"] = NEVER
    fleet["front_key"] = -1.0
    fleet["free_blocks"] = limits["usable_blocks"][0]
    table = np.zeros(requests, state.REQUEST)
    for link in ("left", "right", "next", "replica"):
        table[link] = NOBODY
    for time in ("last_token_s", "admitted_s", "first_token_s", "finished_s"):
        table[time] = np.nan
    contiguous = limits["allocator"][0] == state.CONTIGUOUS
    return Engine(
        limits=limits,
        replicas=fleet,
        requests=table,
        running=np.zeros((replicas, seats), np.int64),
        steps=np.zeros(LOG_STEPS, state.STEP),
        gaps_s=np.zeros(LOG_STEPS + seats, np.float64),
        ended=np.zeros(requests, np.int64),
        # The log must take the busiest step, see `advance.has_room`.
        events=np.zeros(6 * requests + 4096 if events else 0, EVENT),
        counters=np.zeros(4, np.int64),
        phases=np.zeros((replicas, max(1, int(limits["block_size"][0]))), np.int64),
        extents=np.zeros((replicas, seats if contiguous else 0, 2), np.int64),
        cost=cost,
    )


def empty_engine() -> Engine:
    """An engine with nothing to do; every engine has its type."""
    return allocate(
        limits_record({}, keyed_order=False, coast=True),
        replicas=1,
        requests=0,
        cost=StepCost.linear(1.0, 0.0).tables(1, 1),
        events=False,
    )
