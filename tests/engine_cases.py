"""Small fleets under the linear cost model, for tests that work out what must happen."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import simpy

from cost_models import StepCost
from cost_models.kernel import CostTables
from cost_models.step_cost import NO_FRONTEND, Frontend
from simulator.cluster.autoscaler import Autoscaler
from simulator.cluster.clients import sender
from simulator.cluster.routers import ROUTERS
from simulator.engine.fleet import Fleet
from simulator.engine.state import CONTIGUOUS, PAGED, PREFIX, Lockstep
from simulator.recording import Recording
from simulator.scenario.autoscaler import AutoscalerSpec
from simulator.schedulers.orders import make_order
from simulator.workload.requests import Requests

ORDERS = ("fcfs", "sjf", "srpt", "priority", "edf", "fair")
POLICIES = ("static", "continuous", "orca", "sglang", "chunked_prefill")
# chunked_prefill with options, compiled apart from it.
WITH_OPTIONS = ("step_options", "offloading", "multi_lora")
VLLM_V1 = ("chunked_prefill", *WITH_OPTIONS)
ALLOCATORS = {
    "paged": PAGED, "contiguous": CONTIGUOUS, "contiguous_oracle": CONTIGUOUS,
    "buddy": CONTIGUOUS, "prefix": PREFIX,
}  # fmt: skip
RESERVING = ("contiguous", "contiguous_oracle", "buddy")
STEP_S = (1.0, 0.25, 0.0)  # a step of m tokens lasts 1 + m/4 seconds: binary fractions


@dataclass(frozen=True)
class Run:
    """A finished run: the fleet, its recording, and its event log where it was asked for."""

    fleet: Fleet
    recording: Recording
    events: np.ndarray

    def times(self, *names: str) -> list[tuple[float, ...]]:
        """Per request, these columns of the outcome."""
        columns = [getattr(self.recording.outcome, name).tolist() for name in names]
        return list(zip(*columns, strict=True))

    def rows(self, *names: str) -> list[tuple[float, ...]]:
        """Per step, these columns."""
        columns = [getattr(self.recording.steps, name).tolist() for name in names]
        return list(zip(*columns, strict=True))

    def gaps_s(self) -> list[float]:
        """All inter-token gaps, sorted."""
        gaps = self.recording.gaps
        return sorted(np.repeat(gaps.gap_s, gaps.count).tolist())


def table(*rows: Sequence[float], max_concurrency: int | None = None, **columns: Any) -> Requests:
    """Requests from rows of (arrival_s, prompt_tokens, output_tokens).

    `columns` replace max_tokens (else the output), priority (0), predicted_tokens (the
    output), class_id (0), class_names or ids; `pieces` are the (tag, length) that each
    prompt consists of.
    """
    pieces = columns.pop("pieces", None)
    if pieces is not None:
        flat = [piece for row in pieces for piece in row]
        columns["segments"] = np.array(flat, np.int64).reshape(-1, 2)
        columns["segment_offsets"] = np.cumsum([0, *map(len, pieces)])
    arrival_s, prompt, output = zip(*rows, strict=True)
    n = len(rows)
    tokens = np.array(output, np.int64)
    given = {
        "max_tokens": tokens,
        "predicted_tokens": tokens.astype(np.float64),
        "priority": np.zeros(n, np.int64),
        "class_id": np.zeros(n, np.int64),
    }
    for name, value in columns.items():
        given[name] = np.asarray(value, given[name].dtype) if name in given else value
    return Requests(
        arrival_s=np.array(arrival_s, np.float64),
        prompt_tokens=np.array(prompt, np.int64),
        output_tokens=tokens,
        max_concurrency=max_concurrency,
        **given,
    )


def fleet(
    requests: Requests,
    policy: Any = "chunked_prefill",
    *,
    replicas: int = 1,
    order: str = "fcfs",
    allocator: str = "paged",
    step_s: tuple[float, float, float] = STEP_S,
    cost: CostTables | None = None,
    events: bool = False,
    coast: bool = True,
    frontend: Frontend = NO_FRONTEND,
    ttft_limit_s: Any = None,
    preferred_sizes: Sequence[int] = (),
    stage_shares: Sequence[float] = (),
    lockstep: Lockstep | None = None,
    **limits: float,
) -> Fleet:
    """A fleet in which nothing has happened: 4 seats, 16 tokens per step, ample KV."""
    static = policy == "static"
    values = {
        "max_num_seqs": 4,
        "max_num_batched_tokens": 16,
        "max_model_len": 1 << 40,
        "block_size": 4,
        "usable_blocks": 1 << 30,
        "chunked_prefill": 1,
        "reserve_full_isl": 1,
        "allocator": ALLOCATORS[allocator],
        "buddy": allocator == "buddy",
        "hold_finished": static,
        "hash_when_computed": policy == "sglang",
        **limits,
    }
    if isinstance(policy, str):
        policy = import_module(f"simulator.schedulers.{policy}").compose
    made = Fleet(
        requests,
        limits=values,
        cost=StepCost.linear(*step_s).tables(64, 64) if cost is None else cost,
        compose=policy,
        replicas=replicas,
        frontend=frontend,
        order=make_order(order, requests, ttft_limit_s=ttft_limit_s),
        reserves_declared=static,
        oracle=allocator == "contiguous_oracle",
        preferred_sizes=preferred_sizes,
        stage_shares=stage_shares,
        lockstep=lockstep,
        events=events,
    )
    if not coast:
        made.engine.limits["coast"] = 0
    return made


def run(
    requests: Requests,
    policy: Any = "chunked_prefill",
    *,
    router: str = "round_robin",
    horizon_s: float = np.inf,
    autoscaler: AutoscalerSpec | None = None,
    start_s: float = 0.0,
    at_start: int = 1,
    **more: Any,
) -> Run:
    """Send all requests through a router to a fleet, and let it finish.

    An autoscaler begins with `at_start` replicas; new ones serve after `start_s`.
    """
    if autoscaler is not None:
        more["replicas"] = autoscaler.max_replicas
    made = fleet(requests, policy, **more)
    env = simpy.Environment()
    way = ROUTERS[router](np.random.default_rng(0))
    sending = env.process(sender(env, made, way, horizon_s))
    if autoscaler is not None:
        scaler = Autoscaler(env, made, way, autoscaler, replicas=at_start, start_s=start_s)
        env.process(scaler.run(sending))
    env.run(until=None if horizon_s == np.inf else horizon_s)
    made.advance(horizon_s)
    end_s = horizon_s if horizon_s < np.inf else float(made.engine.replicas["clock_s"].max())
    events = made.log_book.events(made.engine)
    return Run(made, made.recording(end_s), events)


def digest(recording: Recording, *, without: Sequence[str] = ()) -> str:
    """Hash of every bit of a recording's columns."""
    sha = hashlib.sha256()
    for part in (recording.outcome, recording.steps, recording.gaps):
        for field in dataclasses.fields(part):
            if field.name not in without:
                sha.update(field.name.encode())
                sha.update(np.ascontiguousarray(getattr(part, field.name)).tobytes())
    return sha.hexdigest()
