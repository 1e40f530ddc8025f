"""What the replicas did: steps, memory, hardware, limits; of pools together and each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics import hardware
from simulator.metrics.backlog import OVERLOADED, backlog, littles_law
from simulator.metrics.host_memory import adapter_figures, offload_figures, preemption_figures
from simulator.metrics.latency import Population
from simulator.metrics.limits import limits
from simulator.metrics.memory import exhaustion, reserved_tokens
from simulator.metrics.quantiles import describe_ms
from simulator.metrics.steps import step_figures
from simulator.recording import Handovers, Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved

# What a pool is described by in the summary, beside its size.
OF_A_POOL = (
    "utilisation", "mean_batch_size", "mean_tokens_per_step", "kv_usage_mean", "kv_usage_peak",
    "preemptions", "recomputed_tokens", "prefix_hit_rate", "mfu", "mbu", "state",
    "backlog_slope_per_s", "limits",
)  # fmt: skip


def engine_figures(recording: Recording, resolved: Resolved, who: Population) -> dict[str, Any]:
    """Figures of all replicas, in the order of summary.json."""
    trend, law = backlog(recording, who), littles_law(recording)
    static = resolved.scenario.scheduler.policy == "static"
    figures = step_figures(
        recording, who, reserved=reserved_tokens(recording), whole_blocks=static
    ).as_dict()
    del figures["num_steps"]  # of the window; the summary has the run's
    prompts = int(recording.requests.prompt_tokens[who.counted].sum())
    cached = int(recording.outcome.cached_tokens[who.counted].sum())
    by_pool = _pools(recording, resolved, who)
    if by_pool:  # who waits for others' prompts in prefill has no tokens to miss
        figures["decode_stall_share"] = by_pool["decode"]["decode_stall_share"]
    of_limits = _together(by_pool, resolved) if by_pool else _of_limits(recording, resolved, who)
    used = {name: of_limits.pop(name) for name in ("mfu", "mbu", "limits")}
    kept = {name: of_limits.pop(name) for name in list(of_limits) if name.startswith("kv_")}
    return (
        of_limits
        | {"prefix_hit_rate": cached / prompts if prompts else float("nan")}
        | figures
        | kept
        | {"mfu": used["mfu"], "mbu": used["mbu"]}
        | {
            "state": trend.state,
            "latency_depends_on_run_length": trend.state == OVERLOADED,
            "backlog_slope_per_s": trend.slope_per_s,
            "backlog_slope_ci95_per_s": trend.slope_ci95_per_s,
            "limits": used["limits"],
            "mean_running": law.mean_running,
            "arrival_rate": law.arrival_rate,
            "mean_residence_s": law.mean_residence_s,
            "pools": {
                name: _size(resolved.pools[name]) | {key: found[key] for key in OF_A_POOL}
                for name, found in by_pool.items()
            },
            "kv_transfer": _transfers(recording.handovers, resolved, who),
        }
    )


def _of_limits(recording: Recording, resolved: Resolved, who: Population) -> dict[str, Any]:
    """Figures that depend on what a replica may hold and can do."""
    split = resolved.scenario.cluster.split
    return (
        preemption_figures(recording, who.counted, resolved)
        | offload_figures(recording, resolved)
        | adapter_figures(recording)
        | exhaustion(recording, who, resolved)
        | {
            "mfu": hardware.mfu(recording, who, resolved.model, resolved.gpu, split),
            "mbu": hardware.mbu(recording, who, resolved.model, resolved.gpu, split),
            "limits": limits(recording, who, resolved),
        }
    )


def _pools(recording: Recording, resolved: Resolved, who: Population) -> dict[str, dict[str, Any]]:
    """All figures of each pool by itself; {} where there are none."""
    if recording.handovers is None:
        return {}
    found = {
        name: engine_figures(getattr(recording.handovers, name), pool, who)
        for name, pool in resolved.pools.items()
    }
    # What was read from prefill is in decode's cache too, but was not found there.
    prompts = recording.requests.prompt_tokens[who.counted]
    read = recording.handovers.pulled_blocks[who.counted]
    whole = np.where(read > 0, -(-prompts // recording.block_size), 0)
    hits = int((whole - read).sum()) * recording.block_size
    found["decode"]["prefix_hit_rate"] = hits / max(int(prompts.sum()), 1)
    return found


def _together(by_pool: dict[str, dict[str, Any]], resolved: Resolved) -> dict[str, Any]:
    """`_of_limits` of two pools: sums, and shares by what each could have done."""
    pools = [resolved.pools[name] for name in by_pool]
    found = list(by_pool.values())
    total = {
        key: sum(one[key] for one in found)
        for key in (
            "preemptions", "recomputed_tokens", "swapped_bytes", "preemption_lost_s",
            "offload_stored_bytes", "offload_loaded_bytes", "offload_load_s",
        )
    }  # fmt: skip
    out = [one for one in found if one["kv_exhausted_s"] is not None] or found[:1]
    first = min(out, key=lambda one: one["kv_exhausted_s"] or 0.0)
    flops = [pool.num_gpus * pool.gpu.peak_flops(pool.model.weight_dtype) for pool in pools]
    rates = [pool.num_gpus * pool.gpu.memory_bandwidth_bytes_per_s for pool in pools]
    replicas = [pool.scenario.cluster.replicas for pool in pools]
    shares: dict[str, float] = {}
    for one, count in zip(found, replicas, strict=True):
        for limit in one["limits"]:
            share = limit["share"] * count / sum(replicas)
            shares[limit["resource"]] = shares.get(limit["resource"], 0.0) + share
    return (
        total
        | {key: first[key] for key in first if key.startswith("kv_exhausted")}
        | {
            "mfu": float(np.average([one["mfu"] for one in found], weights=flops)),
            "mbu": float(np.average([one["mbu"] for one in found], weights=rates)),
            "limits": [
                {"resource": name, "share": share}
                for name, share in sorted(shares.items(), key=lambda item: -item[1])
            ],
        }
    )


def _size(pool: Resolved) -> dict[str, Any]:
    cluster = pool.scenario.cluster
    return {"replicas": cluster.replicas, "num_gpus": pool.num_gpus, "gpu": pool.gpu.name}


def _transfers(
    handovers: Handovers | None, resolved: Resolved, who: Population
) -> dict[str, Any] | None:
    """How long KV was on its way, and how busy that kept the links; None without pools."""
    if handovers is None:
        return None
    rows = who.counted & ~np.isnan(handovers.arrived_s)
    blocks = handovers.pulled_blocks[rows]
    readers = resolved.pools["decode"].scenario.cluster.tensor_parallel
    block_bytes = resolved.block_size * resolved.model.kv_bytes_per_token(readers) * readers
    busy_s = float(blocks.sum()) * resolved.kv_block_s
    figures = describe_ms("transfer", (handovers.arrived_s - handovers.claimed_s)[rows])
    for name, pool in resolved.pools.items():
        links_s = who.observed_s * pool.scenario.cluster.replicas
        figures[f"{name}_link_utilisation"] = busy_s / links_s if links_s > 0 else float("nan")
    return figures | {"transferred_bytes": int(blocks.sum()) * block_bytes}
