"""The machines: how many replicas of what, behind which router."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cost_models.parallelism import Parallelism
from simulator.scenario.autoscaler import AutoscalerSpec
from simulator.scenario.base import Count, NonNegative, Section
from simulator.scenario.pools import PoolsSpec, RouterName

Name = Annotated[str, Field(min_length=1)]


def _quoted_version(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(
            f"cluster.engine_version is the number {value}; put the version in quotes, since YAML "
            "reads 0.20 as 0.2"
        )
    return value


class ModelSpec(Section):
    """The model that is served."""

    name: Name
    """catalogue name, or path of a Hugging Face config.json, relative to the scenario file"""
    weight_dtype: Name | None = None
    """bf16, fp8, ...; null: as the catalogue or config.json says"""
    kv_dtype: Name | None = None
    """data type of the KV cache; null: as the catalogue or config.json says"""


class ClusterSpec(Section):
    """GPUs, engine and router."""

    gpu: Name = "h100_sxm"
    """catalogue name of the GPU, or path of a YAML file like the catalogue's"""
    tensor_parallel: Count = 1
    """GPUs that share each layer"""
    expert_parallel: bool = False
    """experts are dealt out over a replica's GPUs, not each split over them"""
    data_parallel: Count = 1
    """engines of a replica, each with a batch and a KV cache of its own; they share experts"""
    pipeline_parallel: Count = 1
    """stages, each with some of the layers and tensor_parallel GPUs of its own"""
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    """engines behind the router; with an autoscaler, at the start"""
    autoscaler: AutoscalerSpec | None = None
    """what changes their number; null: nothing"""
    engine: Name = "vllm"
    engine_version: Annotated[Name, BeforeValidator(_quoted_version)] | None = None
    """release whose defaults and host time are used; null: the catalogue's newest"""
    router: RouterName = "round_robin"
    """least_outstanding: fewest requests running and waiting; least_kv: fewest KV blocks in use;
    power_of_two: the less loaded of two drawn; session_affinity: where the session's turn before
    was; prefix_affinity: where most of the same prompt was sent, if the load is not uneven;
    adapter_affinity: where its LoRA adapter was sent, likewise"""
    price_per_gpu_hour: NonNegative | None = None
    """dollars on demand; null: the catalogue's"""
    reserved_price_per_gpu_hour: NonNegative | None = None
    """dollars when reserved for a year; null: the catalogue's, where price_per_gpu_hour is too"""
    grid_co2_g_per_kwh: NonNegative | None = None
    """grams of CO2 that the grid emits per kWh; null: no estimate"""
    pue: Annotated[float, Field(ge=1, le=10)] = 1.0
    """power usage effectiveness: energy of the whole site / of its machines"""

    pools: PoolsSpec | None = None
    """prefill and decode on replicas of their own, instead of `replicas` that do both"""

    @property
    def split(self) -> Parallelism:
        """How the GPUs of a replica share the model."""
        return Parallelism(
            tp=self.tensor_parallel,
            pp=self.pipeline_parallel,
            dp=self.data_parallel,
            ep=self.expert_parallel,
        )

    @property
    def engines(self) -> int:
        """Engines of all replicas, each with a scheduler."""
        return self.data_parallel * self.most_replicas

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas, at most; without pools."""
        return self.split.gpus * self.most_replicas

    @property
    def most_replicas(self) -> int:
        """Replicas that there can be at once."""
        return self.replicas if self.autoscaler is None else self.autoscaler.max_replicas
