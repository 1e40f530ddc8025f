"""From a resolved scenario to the machines that serve it, with nothing delivered yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.pipeline import stage_shares
from simulator.cluster.disaggregation import Pools, prompts_only
from simulator.cluster.kv_transfer import Transfers
from simulator.cluster.routers import ROUTERS
from simulator.engine.fleet import Fleet
from simulator.engine.state import Lockstep
from simulator.engine_limits import BOTH, DECODE, PREFILL, engine_limits
from simulator.errors import InputError
from simulator.scenario import Resolved, Scenario
from simulator.scenario.step_options import entry_of
from simulator.schedulers.loader import load_policy
from simulator.schedulers.orders import make_order
from simulator.workload.requests import Requests
from simulator.workload.streams import Purpose, Streams

Servers = Fleet | Pools

# Largest table of step prices; a static batch of long prompts may ask for more tokens, which
# are then priced by the cost model's continuation.
MAX_TABLE_TOKENS = 1 << 20


def build_fleet(resolved: Resolved, requests: Requests, *, events: bool = False) -> Servers:
    """The replicas of a scenario.

    Raises
    ------
    InputError
        The trace asks for LoRA adapters, and the engine serves none.
    """
    if resolved.scenario.scheduler.lora is None and requests.adapter.any():
        raise InputError(
            "the trace asks for LoRA adapters, but the engine serves none; give scheduler.lora, "
            "such as {max_loras: 8}"
        )
    if not resolved.pools:
        return _fleet(resolved, requests, BOTH, events)
    spec = resolved.scenario.cluster.pools
    assert spec is not None
    prefill, decode = resolved.pools["prefill"], resolved.pools["decode"]
    random = Streams(resolved.scenario.seed, resolved.replicate).generator(Purpose.DECODE_ROUTING)
    return Pools(
        requests,
        _fleet(prefill, prompts_only(requests), PREFILL, events),
        _fleet(decode, requests, DECODE, events),
        Transfers(
            resolved.kv_block_s,
            spec.kv_transfer.latency_s,
            senders=prefill.scenario.cluster.replicas,
            receivers=decode.scenario.cluster.replicas,
        ),
        ROUTERS[decode.scenario.cluster.router](random),
        prefill_token=spec.first_token == "prefill",
    )


def front(resolved: Resolved) -> Resolved:
    """The replicas to which clients' requests are routed."""
    return resolved.pools["prefill"] if resolved.pools else resolved


def _fleet(resolved: Resolved, requests: Requests, role: str, events: bool) -> Fleet:
    scenario = resolved.scenario
    scheduler = scenario.scheduler
    static = scheduler.policy == "static"
    max_tokens = max(resolved.max_num_batched_tokens, resolved.max_num_seqs)
    if static:
        longest = min(int(requests.prompt_tokens.max()), resolved.max_model_len)
        max_tokens = scheduler.static.batch_size * longest
    sizes = min(max_tokens, MAX_TABLE_TOKENS), resolved.max_num_seqs
    lockstep = None
    if resolved.shares_experts:
        cost, even_s, total_s = resolved.cost.apart(*sizes)
        lockstep = Lockstep(even_s=even_s, total_s=total_s)
    else:
        cost = resolved.cost.tables(*sizes)
    policy = "decode_pool" if role == DECODE else entry_of(scenario)
    return Fleet(
        requests,
        limits=engine_limits(resolved, role),
        cost=cost,
        compose=load_policy(policy, scenario.base_dir),
        replicas=scenario.cluster.engines,
        frontend=resolved.cost.frontend,
        order=make_order(
            scheduler.order,
            requests,
            ttft_limit_s=_ttft_limit_s(scenario, requests),
            base_dir=scenario.base_dir,
        ),
        reserves_declared=static,
        oracle=scenario.kv_cache.allocator == "contiguous_oracle",
        preferred_sizes=scheduler.static.preferred_batch_sizes if static else (),
        stage_shares=stage_shares(resolved.model, scenario.cluster.pipeline_parallel),
        lockstep=lockstep,
        events=events,
    )


def _ttft_limit_s(scenario: Scenario, requests: Requests) -> NDArray[np.float64]:
    """(N,) seconds to the first token that each request's class, or the scenario, allows."""
    limits = {spec.name: spec.slo.ttft_limit_ms for spec in scenario.workload.classes}
    limit_ms = [limits.get(name) or scenario.slo.ttft_limit_ms for name in requests.class_names]
    return np.array([np.inf if ms is None else ms / 1e3 for ms in limit_ms])[requests.class_id]
