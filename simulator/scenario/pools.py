"""Prefill/decode disaggregation: one pool of replicas for prompts, one for what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from simulator.scenario.base import Count, NonNegative, Positive, Section

if TYPE_CHECKING:
    from simulator.scenario.scenario import Scenario

Name = Annotated[str, Field(min_length=1)]
RouterName = Literal[
    "round_robin",
    "random",
    "least_outstanding",
    "least_kv",
    "power_of_two",
    "session_affinity",
    "prefix_affinity",
    "adapter_affinity",
]
POOLS = ("prefill", "decode")

# Keys of a pool by the section of the scenario whose key of the same name they take the place of.
SECTION_OF = {
    "replicas": "cluster",
    "gpu": "cluster",
    "tensor_parallel": "cluster",
    "router": "cluster",
    "price_per_gpu_hour": "cluster",
    "reserved_price_per_gpu_hour": "cluster",
    "max_num_seqs": "scheduler",
    "max_num_batched_tokens": "scheduler",
    "num_gpu_blocks": "kv_cache",
    "gpu_memory_utilization": "kv_cache",
    "enable_prefix_caching": "kv_cache",
}


class PoolSpec(Section):
    """The replicas of a pool; what is null is as the scenario's key of the same name says."""

    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    gpu: Name | None = None
    tensor_parallel: Count | None = None
    router: RouterName | None = None
    price_per_gpu_hour: NonNegative | None = None
    reserved_price_per_gpu_hour: NonNegative | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    num_gpu_blocks: Annotated[int, Field(ge=2, le=20_000_000)] | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    enable_prefix_caching: bool | None = None


class KvTransferSpec(Section):
    """The way of a prompt's KV cache from the replica that computed it."""

    link: Literal["network", "node"] = "network"
    """network: the GPUs' network cards, between nodes; node: the GPUs' link within a node"""
    bytes_per_s: Positive | None = None
    """of each GPU, in one direction; null: the catalogue's figure for that link"""
    latency_s: NonNegative = 0.0
    """before the first byte of a transfer, on top of its bytes"""


class PoolsSpec(Section):
    """Two pools and what is between them, as vLLM's KV connectors work."""

    prefill: PoolSpec = PoolSpec()
    """computes prompts, keeps their KV until it has been read"""
    decode: PoolSpec = PoolSpec()
    """reads the KV of prompts, then generates"""
    kv_transfer: KvTransferSpec = KvTransferSpec()
    first_token: Literal["decode", "prefill"] = "decode"
    """whose first token the client gets: decode (vLLM), which computes the prompt's last token
    again; or prefill, at once, from which decode goes on"""


def pool_scenario(scenario: Scenario, name: str) -> Scenario:
    """One pool of a scenario as a cluster of its own.

    The limit of the queue is at the front door, so that only the prefill pool has it.
    """
    data: dict[str, Any] = scenario.to_mapping()
    pools = data["cluster"].pop("pools")
    for key, value in pools[name].items():
        data[SECTION_OF[key]][key] = value
    if name == "decode":
        data["scheduler"].pop("max_queue", None)
    return type(scenario).from_mapping(data, scenario.base_dir)


def copies(scenario: Scenario, count: int) -> list[str]:
    """Overrides for `count` replicas; of pools, for so many times the replicas of each."""
    pools = scenario.cluster.pools
    if pools is None:
        return [f"cluster.replicas={count}"]
    return [
        f"cluster.pools.{name}.replicas={count * getattr(pools, name).replicas}" for name in POOLS
    ]


def check_pools(scenario: Scenario) -> None:
    """Refuse what cannot be split into two pools.

    Raises
    ------
    ValueError
        One sentence that names both keys.
    """
    cluster, scheduler, kv_cache = scenario.cluster, scenario.scheduler, scenario.kv_cache
    if cluster.pools is None:
        return
    given = "cluster.pools is given, but"
    if scheduler.policy != "chunked_prefill":
        raise ValueError(
            f"{given} scheduler.policy is {scheduler.policy}: the handover is simulated as vLLM "
            "V1's scheduler does it; choose chunked_prefill"
        )
    if cluster.replicas != 1:
        raise ValueError(
            f"{given} cluster.replicas is {cluster.replicas}; give the replicas of each pool, as "
            "cluster.pools.prefill.replicas and cluster.pools.decode.replicas, instead"
        )
    if kv_cache.allocator != "paged":
        raise ValueError(
            f"{given} kv_cache.allocator is {kv_cache.allocator}: only whole pages are handed "
            "over; choose paged"
        )
    for key, on in (
        ("cluster.pipeline_parallel", cluster.pipeline_parallel > 1),
        ("cluster.data_parallel", cluster.data_parallel > 1),
        ("cluster.autoscaler", cluster.autoscaler is not None),
        ("scheduler.speculative", scheduler.speculative is not None),
        ("scheduler.structured_output", scheduler.structured_output is not None),
        ("scheduler.lora", scheduler.lora is not None),
        ("kv_cache.kv_offloading_size", kv_cache.kv_offloading_size > 0),
    ):
        if on:
            raise ValueError(f"{given} it is not simulated together with {key}; remove one of them")
