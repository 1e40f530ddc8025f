"""Small prefill and decode pools under the linear cost model, as `engine_cases` has fleets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import simpy
from engine_cases import fleet

from simulator.cluster.clients import sender
from simulator.cluster.disaggregation import Pools, prompts_only
from simulator.cluster.kv_transfer import Transfers
from simulator.cluster.routers import ROUTERS
from simulator.engine.integrity import violations
from simulator.recording import UNFINISHED, Recording
from simulator.workload.requests import Requests

BLOCK_S, LATENCY_S = 0.5, 0.25


def pools(
    requests: Requests,
    *,
    prefill: Mapping[str, Any] | None = None,
    decode: Mapping[str, Any] | None = None,
    replicas: tuple[int, int] = (1, 1),
    block_s: float = BLOCK_S,
    latency_s: float = LATENCY_S,
    router: str = "round_robin",
    prefill_token: bool = False,
    **common: Any,
) -> Pools:
    """Pools in which nothing has happened; `prefill` and `decode` are limits of one of them."""
    first, second = replicas
    return Pools(
        requests,
        fleet(
            prompts_only(requests),
            "chunked_prefill",
            **{**common, **(prefill or {}), "replicas": first, "lends_kv": 1},
        ),
        fleet(
            requests,
            "decode_pool",
            **{**common, **(decode or {}), "replicas": second, "reads_kv": 1},
        ),
        Transfers(block_s, latency_s, *replicas),
        ROUTERS[router](np.random.default_rng(1)),
        prefill_token=prefill_token,
    )


def serve(
    requests: Requests,
    *,
    router: str = "round_robin",
    horizon_s: float = np.inf,
    events: bool = False,
    **more: Any,
) -> Recording:
    """Send all requests through both pools; with `events`, check that the run is sound."""
    made = pools(requests, router=router, events=events, **more)
    env = simpy.Environment()
    env.process(sender(env, made, ROUTERS[router](np.random.default_rng(0)), horizon_s))
    env.run()
    made.advance(horizon_s)
    recording = made.recording(horizon_s if horizon_s < np.inf else made.clock_s)
    if events:
        for one, (name, part, _) in zip(made.fleets, recording.pools(), strict=True):
            log = one.log_book.events(one.engine)
            every = one.engine.limits["depth"][0] == 1
            cut = bool((recording.outcome.status == UNFINISHED).any())
            wrong = violations(one, part, log, every_member_scheduled=bool(every), loans_open=cut)
            assert not wrong, (name, wrong)
    return recording
