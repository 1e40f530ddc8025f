"""Sections that are valid alone and impossible together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.scenario.lora import asks_for_adapters, check_lora
from simulator.scenario.pools import check_pools
from simulator.scenario.step_options import check_options, options_of

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario

BY_PREDICTION = ("sjf", "srpt")  # orders that need workload.predictor
# Policies whose admission always, or never, looks at the whole prompt.
WITHOUT_ISL_CHECK = ("static", "continuous", "orca", "sglang")


def why_not(scenario: Scenario, key: str) -> str | None:
    """What keeps a scenario from switching `key` on; None if nothing does."""
    policy, allocator = scenario.scheduler.policy, scenario.kv_cache.allocator
    if key == "async_scheduling" and scenario.cluster.pipeline_parallel > 1:
        return "with cluster.pipeline_parallel a step is composed for each stage that is free"
    if key == "async_scheduling" and policy in ("static", "continuous", "orca"):
        return f"the policy {policy} composes a step only when the one before has ended"
    if key == "async_scheduling" and scenario.scheduler.speculative is not None:
        return "with scheduler.speculative a step is composed when its drafts are known"
    if key == "async_scheduling" and policy == "sglang":
        return "the overlap of SGLang's scheduler with the GPU is not simulated"
    if key == "async_scheduling" and allocator != "paged":
        return f"engines whose allocator is {allocator} composed a step when the last had ended"
    if key == "enable_prefix_caching" and policy == "static":
        return "the policy static reserves room for each batch"
    if key == "enable_prefix_caching" and allocator != "paged":
        return f"the allocator {allocator} has no blocks to share"
    return None


def check_combinations(scenario: Scenario) -> None:
    """Refuse what no engine could be started with, whatever its defaults are.

    Raises
    ------
    ValueError
        One sentence that names both keys.
    """
    workload, scheduler, kv_cache = scenario.workload, scenario.scheduler, scenario.kv_cache
    _check_order(scenario)
    if scheduler.policy == "sglang" and kv_cache.allocator != "paged":
        raise ValueError(
            f"kv_cache.allocator is {kv_cache.allocator}, but the policy sglang pages its cache; "
            "choose paged"
        )
    declared = kv_cache.allocator in ("contiguous", "buddy")
    if declared and scheduler.policy != "static" and workload.max_tokens is None:
        raise ValueError(
            f"kv_cache.allocator is {kv_cache.allocator}, which reserves room for what clients "
            "declare; give workload.max_tokens"
        )
    static = scheduler.static
    too_large = [size for size in static.preferred_batch_sizes if size > static.batch_size]
    if too_large:
        raise ValueError(
            f"scheduler.static.preferred_batch_sizes has {max(too_large)}, more than "
            f"scheduler.static.batch_size {static.batch_size}; raise the one or lower the other"
        )
    check_options(scenario)
    check_lora(scenario)
    check_pools(scenario)
    _check_groups(scenario)
    _check_autoscaler(scenario)
    if kv_cache.kv_offloading_size > 0:
        _check_offloading(scenario)
    if scheduler.preemption == "swap":
        _check_swap(scenario)
    for section, key in (("scheduler", "async_scheduling"), ("kv_cache", "enable_prefix_caching")):
        reason = why_not(scenario, key)
        if reason and getattr(getattr(scenario, section), key):
            raise ValueError(f"{section}.{key} is true, but {reason}; remove one of the two")
    tokens, seqs = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
    decodes_in_budget = scheduler.policy not in ("static", "sglang")
    if decodes_in_budget and tokens is not None and seqs is not None and tokens < seqs:
        raise ValueError(
            f"scheduler.max_num_batched_tokens is {tokens}, less than scheduler.max_num_seqs "
            f"{seqs}: the decodes of a full batch would not fit in a step; raise the one or lower "
            "the other"
        )


def _check_order(scenario: Scenario) -> None:
    """An order needs what it sorts by."""
    order, workload = scenario.scheduler.order, scenario.workload
    if order in BY_PREDICTION and workload.predictor is None:
        raise ValueError(
            f"scheduler.order is {order}, which needs predicted output lengths; give "
            "workload.predictor: oracle, class_mean or {lognormal_error: 0.5}"
        )
    slos = (scenario.slo, *(spec.slo for spec in workload.classes))
    if order == "edf" and all(slo.ttft_limit_ms is None for slo in slos):
        raise ValueError(
            "scheduler.order is edf, which needs to know when first tokens are due; give a limit "
            "on TTFT in slo or in a class's slo, such as ttft_ms: 500"
        )
    if order == "fair" and not _several_classes(scenario):
        raise ValueError(
            "scheduler.order is fair, which shares the engine between classes, but the workload "
            "has no two of them; give workload.classes, or take another order"
        )


def _several_classes(scenario: Scenario) -> bool:
    """Whether there may be more than one class: a trace tells only when it is read."""
    workload = scenario.workload
    by_column = workload.trace is not None and workload.trace.class_column is not None
    return by_column or len(workload.classes) > 1


def _check_groups(scenario: Scenario) -> None:
    """Stages and engines that step together are of vLLM V1, without options of the step."""
    scheduler, kv_cache, cluster = scenario.scheduler, scenario.kv_cache, scenario.cluster
    if cluster.pipeline_parallel > 1:
        given = f"cluster.pipeline_parallel is {cluster.pipeline_parallel}, but"
    elif cluster.data_parallel > 1:
        given = f"cluster.data_parallel is {cluster.data_parallel}, but"
    else:
        return
    if scheduler.policy != "chunked_prefill" or kv_cache.allocator != "paged":
        raise ValueError(
            f"{given} it is simulated with the policy chunked_prefill and kv_cache.allocator "
            "paged alone; choose these, or 1"
        )
    beside = [f"scheduler.{name}" for name in options_of(scenario)]
    if kv_cache.kv_offloading_size > 0:
        beside.append("kv_cache.kv_offloading_size")
    if beside:
        raise ValueError(f"{given} it is not simulated together with {beside[0]}; remove one")


def _check_autoscaler(scenario: Scenario) -> None:
    """The replicas at the start are among those that there may be."""
    cluster = scenario.cluster
    if cluster.autoscaler is None:
        return
    if cluster.data_parallel > 1:
        raise ValueError(
            f"cluster.data_parallel is {cluster.data_parallel}, but cluster.autoscaler changes "
            "engines one by one; remove one of the two"
        )
    least, most = cluster.autoscaler.min_replicas, cluster.autoscaler.max_replicas
    if not least <= cluster.replicas <= most:
        raise ValueError(
            f"cluster.replicas is {cluster.replicas}, with which cluster.autoscaler begins; it "
            f"must be from min_replicas {least} to max_replicas {most}"
        )


def _check_offloading(scenario: Scenario) -> None:
    """The second tier takes what the prefix cache of vLLM V1 evicts."""
    scheduler, kv_cache = scenario.scheduler, scenario.kv_cache
    given = f"kv_cache.kv_offloading_size is {kv_cache.kv_offloading_size:g}, but"
    if scheduler.policy != "chunked_prefill":
        raise ValueError(
            f"{given} the policy {scheduler.policy} has no second tier; take chunked_prefill"
        )
    if kv_cache.enable_prefix_caching is False or kv_cache.allocator != "paged":
        raise ValueError(
            f"{given} without prefix caching there is nothing to keep; switch "
            "kv_cache.enable_prefix_caching on, with kv_cache.allocator paged"
        )
    beside = options_of(scenario)
    if beside or not scheduler.enable_chunked_prefill:
        other = f"scheduler.{beside[0]}" if beside else "scheduler.enable_chunked_prefill false"
        raise ValueError(f"{given} it is not simulated together with {other}; remove one of them")


def _check_swap(scenario: Scenario) -> None:
    """Only early vLLM swaps, and only blocks that nobody shares."""
    scheduler, kv_cache = scenario.scheduler, scenario.kv_cache
    if scheduler.policy != "continuous":
        raise ValueError(
            f"scheduler.preemption is swap, but the policy {scheduler.policy} never swaps; choose "
            "recompute, or the policy continuous"
        )
    if kv_cache.allocator != "paged" or kv_cache.enable_prefix_caching:
        raise ValueError(
            "scheduler.preemption is swap, which moves blocks that a request has for itself; "
            "choose kv_cache.allocator paged and leave kv_cache.enable_prefix_caching off"
        )
    if scheduler.cpu_swap_gb == 0:
        raise ValueError(
            "scheduler.preemption is swap, but scheduler.cpu_swap_gb is 0; give room in GiB, or "
            "choose recompute"
        )


def without_effect(scenario: Scenario) -> list[str]:
    """One sentence for each setting that changes nothing beside the others.

    They are allowed, since variants of a comparison share them, but never passed over.
    """
    scheduler, workload = scenario.scheduler, scenario.workload
    policy, order = scheduler.policy, scheduler.order
    idle = []
    if policy in WITHOUT_ISL_CHECK:
        if scheduler.long_prefill_token_threshold:
            idle.append(f"scheduler.long_prefill_token_threshold: no effect with {policy}")
        if not scheduler.enable_chunked_prefill:
            idle.append(f"scheduler.enable_chunked_prefill: no effect with {policy}")
        if scheduler.scheduler_reserve_full_isl is not None:
            idle.append(f"scheduler.scheduler_reserve_full_isl: no effect with {policy}")
    if policy in ("static", "sglang") and scheduler.watermark:
        idle.append(f"scheduler.watermark: no effect with {policy}")
    if policy == "static" and scenario.kv_cache.allocator != "paged":
        idle.append(
            "kv_cache.allocator: static reserves room for its batch itself, so that the allocator "
            "only decides which requests are too long"
        )
    if scheduler.lora is not None and workload.trace is None and not asks_for_adapters(scenario):
        idle.append("scheduler.lora: no request asks for an adapter, but the slots take memory")
    default_swap = type(scheduler).model_fields["cpu_swap_gb"].default
    if scheduler.preemption == "recompute" and scheduler.cpu_swap_gb != default_swap:
        idle.append("scheduler.cpu_swap_gb: no effect with preemption recompute")
    if scheduler.preemption == "recompute" and scheduler.overlap_swap:
        idle.append("scheduler.overlap_swap: no effect with preemption recompute")
    if policy == "static" and scheduler.max_num_batched_tokens is not None:
        idle.append("scheduler.max_num_batched_tokens: no effect with static, but on memory")
    if policy != "static" and scheduler.static != type(scheduler.static)():
        idle.append(f"scheduler.static: no effect with {policy}")
    if workload.predictor is not None and order not in BY_PREDICTION and ":" not in order:
        idle.append(f"workload.predictor: no effect with order {order}")
    if order in BY_PREDICTION and workload.predictor == "class_mean" and len(workload.classes) < 2:
        idle.append("workload.predictor: class_mean of one class is the same for all requests")
    priorities = {spec.priority for spec in workload.classes}
    if order == "priority" and len(priorities) < 2 and workload.trace is None:
        idle.append("scheduler.order: priority, but all classes have the same priority")
    return idle
