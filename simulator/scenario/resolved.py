"""A scenario with nothing left open: what the engine is started with."""

from __future__ import annotations

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
