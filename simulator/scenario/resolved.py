"""A scenario with nothing left open: what the engine is started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cost_models.catalog import EngineDefaults, Gpu, Model
from cost_models.memory import MemoryBudget
from simulator.scenario.scenario import Scenario

if TYPE_CHECKING:
    from cost_models.step_cost import StepCost


@dataclass(frozen=True, eq=False, kw_only=True)
class Resolved:
    """A scenario, the facts behind its names, and where each default came from.

    Attributes
    ----------
    scenario : every null that the engine gives a value filled with that value.  Its hash
        is the identity of the results.
    model, gpu : catalogue facts.
    defaults : of the engine release.
    cost : price of a step.
    memory : the sum that gave num_gpu_blocks; None where the scenario gives it.
    num_gpu_blocks, block_size : KV cache of a replica.
    max_model_len : most tokens of a request.
    max_num_seqs, max_num_batched_tokens : limits of a step.
    replicate : number of the random sample that the machines draw from (routers do).
    notes : one sentence for each default taken and each departure from the engine.
    pools : by name, prefill and decode, each as a cluster of its own; {} where replicas do
        both.  The facts above are then those of the decode pool.
    """

    scenario: Scenario
    model: Model
    gpu: Gpu
    defaults: EngineDefaults
    cost: StepCost
    memory: MemoryBudget | None
    num_gpu_blocks: int
    block_size: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    replicate: int = 0
    notes: list[str] = field(default_factory=list)
    pools: Mapping[str, Resolved] = field(default_factory=dict)

    @property
    def shares_experts(self) -> bool:
        """Whether engines of a replica step together, since they share the model's experts."""
        return self.scenario.cluster.data_parallel > 1 and self.model.experts is not None

    @property
    def replica_start_s(self) -> float:
        """From the order of a replica to its first request: its engine starts, weights are read."""
        scaler = self.scenario.cluster.autoscaler
        if scaler is None:
            return 0.0
        return scaler.engine_start_s + self.model.weight_bytes(1) / (scaler.load_gb_per_s * 1e9)

    @property
    def usable_kv_blocks(self) -> int:
        """Blocks that a replica can hand out: one of a paged pool is a placeholder."""
        paged = self.scenario.kv_cache.allocator == "paged"
        return self.num_gpu_blocks - 1 if paged else self.num_gpu_blocks

    @property
    def kv_block_s(self) -> float:
        """Seconds that a KV block between two pools keeps the links at both ends busy.

        Each rank of the reader reads what it needs of a block over its own link; the ranks of
        the sender share what all of them read, so that fewer of these serve each of them
        longer.  Where every rank holds a whole latent vector, or there are fewer KV heads than
        ranks, the reader's ranks read the same bytes several times, as NIXL's do.
        """
        pools = self.scenario.cluster.pools
        assert pools is not None and pools.kv_transfer.bytes_per_s is not None  # filled in
        sends, reads = (
            self.pools[name].scenario.cluster.tensor_parallel for name in ("prefill", "decode")
        )
        rank_bytes = self.block_size * self.model.kv_bytes_per_token(reads)
        return rank_bytes * max(1.0, reads / sends) / pools.kv_transfer.bytes_per_s

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        if self.pools:
            return sum(pool.num_gpus for pool in self.pools.values())
        return self.scenario.cluster.num_gpus

    @property
    def price_per_hour(self) -> float:
        """Dollars per hour of all GPUs."""
        if self.pools:
            return sum(pool.price_per_hour for pool in self.pools.values())
        return self.num_gpus * self.price_per_gpu_hour

    @property
    def price_per_gpu_hour(self) -> float:
        """Dollars per hour of a GPU; of pools the mean."""
        if self.pools:
            return self.price_per_hour / self.num_gpus
        price = self.scenario.cluster.price_per_gpu_hour
        return self.gpu.price_per_gpu_hour if price is None else price
