"""LoRA adapters: who asks for which, and how many a GPU serves at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.scenario.base import Count, NonNegative, Positive, Section, Share

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario


class AdaptersSpec(Section):
    """LoRA adapters that requests ask for, by their popularity."""

    count: Count
    """adapters, all of the same rank"""
    zipf_exponent: NonNegative = 1.0
    """the k-th most popular is asked for 1/k^s times as often as the first; 0: all alike"""
    share: Share = 1.0
    """of the requests, or sessions, that ask for one; the others use the model itself"""


class LoraSpec(Section):
    """The engine's side of LoRA; names are vLLM's."""

    max_loras: Count = 1
    """adapters in a batch, and on a GPU; who asks for another one is passed over by others"""
    max_lora_rank: Count = 16
    """rank of the adapters, for which each slot on the GPU has room"""
    load_gb_per_s: Positive | None = None
    """GB/s at which an adapter comes to a slot of each GPU, for which the step waits; null: from
    host memory, at the GPU's PCIe rate (vLLM keeps max_cpu_loras there, else reads files)"""
    step_s_per_layer: NonNegative = 62.5e-6
    """seconds per layer that the kernels of a step with any adapter take: the 2 ms of 32 layers in
    Chen et al., "Punica: Multi-Tenant LoRA Serving", 2024"""


def asks_for_adapters(scenario: Scenario) -> bool:
    """Whether the workload is sure to; a trace's own column tells when it is read."""
    workload = scenario.workload
    return workload.adapters is not None or any(c.adapter for c in workload.classes)


def check_lora(scenario: Scenario) -> None:
    """Refuse adapters that nobody serves, and orders under which they are not simulated.

    Raises
    ------
    ValueError
        One sentence that names both keys.
    """
    workload, scheduler = scenario.workload, scenario.scheduler
    if workload.adapters is not None and any(c.adapter for c in workload.classes):
        raise ValueError(
            "workload.adapters draws the adapter of each request, and a class of workload.classes "
            "names its own; remove one of the two"
        )
    if asks_for_adapters(scenario) and scheduler.lora is None:
        raise ValueError(
            "the workload asks for LoRA adapters, but the engine serves none; give scheduler.lora, "
            "such as {max_loras: 8}"
        )
    if scheduler.lora is None:
        return
    if scheduler.order != "fcfs":
        raise ValueError(
            f"scheduler.lora is simulated with the order fcfs, and scheduler.order is "
            f"{scheduler.order}; remove one of the two"
        )
    if not scheduler.enable_chunked_prefill:
        raise ValueError(
            "scheduler.lora is simulated with chunked prefill; leave "
            "scheduler.enable_chunked_prefill true"
        )
    beside = next(
        (
            key
            for key, given in {
                "scheduler.speculative": scheduler.speculative is not None,
                "scheduler.structured_output": scheduler.structured_output is not None,
                "kv_cache.kv_offloading_size": scenario.kv_cache.kv_offloading_size > 0,
            }.items()
            if given
        ),
        None,
    )
    if beside is not None:
        raise ValueError(
            f"scheduler.lora is not simulated together with {beside}; remove one of the two"
        )
