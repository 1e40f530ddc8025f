"""From a scenario to the limits that the engine is told."""

from __future__ import annotations

from cost_models.lora import adapter_cost
from simulator.engine.state import CONTIGUOUS, PAGED, PREFIX
from simulator.errors import InputError
from simulator.scenario import Resolved, Scenario
from simulator.schedulers.releases import RULES

# What a replica does: all, or one of two in pools of their own.
BOTH, PREFILL, DECODE = "both", "prefill", "decode"


def engine_limits(resolved: Resolved, role: str = BOTH) -> dict[str, float]:
    """Fields of `simulator.engine.state.LIMITS` and their values.

    Raises
    ------
    InputError
        Less host memory than a block.
    """
    scenario = resolved.scenario
    scheduler = scenario.scheduler
    max_queue = scheduler.max_queue
    limits: dict[str, float] = {
        "max_num_seqs": resolved.max_num_seqs,
        "max_num_batched_tokens": resolved.max_num_batched_tokens,
        "max_model_len": resolved.max_model_len,
        "block_size": resolved.block_size,
        "usable_blocks": resolved.usable_kv_blocks,
        "watermark_blocks": int((scheduler.watermark or 0.0) * resolved.num_gpu_blocks),
        "long_prefill_token_threshold": scheduler.long_prefill_token_threshold,
        "chunked_prefill": scheduler.enable_chunked_prefill,
        "reserve_full_isl": bool(scheduler.scheduler_reserve_full_isl),
        "allocator": _allocator(scenario),
        "buddy": scenario.kv_cache.allocator == "buddy",
        "hash_when_computed": scheduler.policy == "sglang",
        "depth": 2 if scheduler.async_scheduling else 1,
        **({} if max_queue is None else {"max_queue": max_queue}),
    }
    if scheduler.policy == "chunked_prefill":
        limits |= RULES[resolved.defaults.scheduler_rules].limits()
    stages = scenario.cluster.pipeline_parallel
    if stages > 1:
        limits |= {"depth": stages, "one_in_flight": True, "coast": False}
    if resolved.shares_experts:
        limits |= {"group_size": scenario.cluster.data_parallel, "coast": False}
    limits |= _option_limits(scenario)
    if role != BOTH:
        limits["lends_kv" if role == PREFILL else "reads_kv"] = True
    limits |= _lora_limits(resolved)
    limits |= _host_memory_limits(resolved)
    if scheduler.policy == "static":
        limits.update(
            batch_size=scheduler.static.batch_size,
            max_wait_s=scheduler.static.max_wait_s,
            stream=scheduler.static.stream,
            hold_finished=True,
        )
    return limits


def _host_memory_limits(resolved: Resolved) -> dict[str, float]:
    """Room in host memory, and what a copy costs; each GPU copies its share over its own link."""
    tp = resolved.scenario.cluster.tensor_parallel
    block_bytes = resolved.block_size * resolved.model.kv_bytes_per_token(tp)
    scheduler, kv_cache = resolved.scenario.scheduler, resolved.scenario.kv_cache
    swap_gib = scheduler.cpu_swap_gb if scheduler.preemption == "swap" else 0.0
    if 0 < kv_cache.kv_offloading_size * 2**30 < block_bytes:
        raise InputError(
            f"kv_cache.kv_offloading_size is {kv_cache.kv_offloading_size:g} GiB, less than one "
            f"block of {block_bytes} bytes; give more, or 0 for no second tier"
        )
    return {
        "host_blocks": int(swap_gib * 2**30 // block_bytes),
        "offload_blocks": int(kv_cache.kv_offloading_size * 2**30 // block_bytes),
        "copy_s_per_block": block_bytes / resolved.gpu.pcie_bytes_per_s,
        "overlap_swap": int(scheduler.overlap_swap),
    }


def _option_limits(scenario: Scenario) -> dict[str, float]:
    """Options of the step, as fields of the engine's limits."""
    scheduler = scenario.scheduler
    limits: dict[str, float] = {"luck": scenario.seed}
    if scheduler.speculative is not None:
        limits |= scheduler.speculative.model_dump()
    if scheduler.structured_output is not None:
        limits["structured_share"] = scheduler.structured_output.share
        limits["grammar_s_per_seq"] = scheduler.structured_output.grammar_s_per_seq
    return limits


def _lora_limits(resolved: Resolved) -> dict[str, float]:
    """Slots for adapters, and what a step with adapters takes longer."""
    lora, tp = resolved.scenario.scheduler.lora, resolved.scenario.cluster.tensor_parallel
    if lora is None:
        return {}
    version = resolved.scenario.cluster.engine_version
    if RULES[resolved.defaults.scheduler_rules].skips_unchunkable:
        raise InputError(
            f"scheduler.lora follows releases that keep the place of who is passed over, and "
            f"cluster.engine_version is {version}; take a newer one"
        )
    cost = adapter_cost(
        resolved.model,
        resolved.gpu,
        lora.max_lora_rank,
        tp,
        step_s_per_layer=lora.step_s_per_layer,
        load_bytes_per_s=None if lora.load_gb_per_s is None else lora.load_gb_per_s * 1e9,
    )
    return {
        "max_loras": lora.max_loras,
        "lora_load_s": cost.load_s,
        "lora_step_s": cost.step_s,
        "lora_adapter_s": cost.adapter_s,
        "lora_token_s": cost.token_s,
    }


def _allocator(scenario: Scenario) -> int:
    """A static batch reserves for itself, so that it needs no more than counted blocks."""
    if scenario.kv_cache.enable_prefix_caching:
        return PREFIX
    static = scenario.scheduler.policy == "static"
    contiguous = scenario.kv_cache.allocator != "paged"
    return CONTIGUOUS if contiguous and not static else PAGED
