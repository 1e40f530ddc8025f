"""Sections that are valid alone and impossible together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario

BY_PREDICTION = ("sjf", "srpt")  # orders that need workload.predictor


def why_not(scenario: Scenario, key: str) -> str | None:
    """What keeps a scenario from switching `key` on; None if nothing does."""
    policy, allocator = scenario.scheduler.policy, scenario.kv_cache.allocator
    if key == "async_scheduling" and policy in ("static", "continuous", "orca"):
        return f"the policy {policy} composes a step only when the one before has ended"
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
    declared = kv_cache.allocator in ("contiguous", "buddy")
    if declared and scheduler.policy != "static" and workload.max_tokens is None:
        raise ValueError(
            f"kv_cache.allocator is {kv_cache.allocator}, which reserves room for what clients "
            "declare; give workload.max_tokens"
        )
    for section, key in (("scheduler", "async_scheduling"), ("kv_cache", "enable_prefix_caching")):
        reason = why_not(scenario, key)
        if reason and getattr(getattr(scenario, section), key):
            raise ValueError(f"{section}.{key} is true, but {reason}; remove one of the two")
    tokens, seqs = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
    if scheduler.policy != "static" and tokens is not None and seqs is not None and tokens < seqs:
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


def without_effect(scenario: Scenario) -> list[str]:
    """One sentence for each setting that changes nothing beside the others.

    They are allowed, since variants of a comparison share them, but never passed over.
    """
    scheduler, workload = scenario.scheduler, scenario.workload
    policy, order = scheduler.policy, scheduler.order
    idle = []
    if policy in ("static", "continuous", "orca"):
        if scheduler.long_prefill_token_threshold:
            idle.append(f"scheduler.long_prefill_token_threshold: no effect with {policy}")
        if not scheduler.enable_chunked_prefill:
            idle.append(f"scheduler.enable_chunked_prefill: no effect with {policy}")
    if policy == "static" and scenario.kv_cache.allocator != "paged":
        idle.append("kv_cache.allocator: no effect with static, which reserves room for its batch")
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
