"""LoRA adapters on a GPU: how large they are, and what a step with them takes longer.

An adapter of rank r adds ``B·A·x`` to each linear layer, with A of r x inputs and B of
outputs x r (Hu et al., "LoRA", 2021).  As vLLM keeps them for every linear layer of the
model in bf16: under tensor parallelism B is split where the layer's outputs are, A where
its inputs are, and the other of the two is on every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.catalog import Gpu, Model
from cost_models.errors import InputError

BYTES_PER_WEIGHT = 2  # bf16


def adapter_weights(model: Model, rank: int, tp: int = 1) -> int:
    """Weights of one adapter on one GPU.

    Raises
    ------
    InputError
        A model with experts or latent attention, whose adapters differ from engine to engine.
    """
    if model.experts is not None or model.latent is not None:
        raise InputError(
            f"scheduler.lora: the size of adapters is known for dense models, and {model.name} has "
            "experts or latent attention; take a dense model, or remove scheduler.lora"
        )
    hidden, ffn, queries = model.hidden_size, model.intermediate_size // tp, model.q_size // tp
    keys_values = 2 * model.kv_heads_per_rank(tp) * model.head_dim
    ups = model.mlp_matrices - 1
    widths = (
        3 * hidden + queries + keys_values  # an adapter each for queries, keys and values
        + queries + hidden  # their output
        + ups * (hidden + ffn)  # up, and gate
        + ffn + hidden  # down
    )  # fmt: skip
    return rank * widths * model.num_layers


def adapter_bytes(model: Model, rank: int, tp: int = 1) -> int:
    """Bytes of one adapter on one GPU, as large as its slot for adapters of this rank."""
    return adapter_weights(model, rank, tp) * BYTES_PER_WEIGHT


@dataclass(frozen=True)
class AdapterCost:
    """Seconds of one GPU that adapters add.

    Attributes
    ----------
    load_s : to fill a slot.
    step_s : for a step with any adapter: the kernels' own time.
    adapter_s : for each adapter of the step: to read its weights.
    token_s : for each token that goes through one: its FLOPs.
    """

    load_s: float
    step_s: float
    adapter_s: float
    token_s: float


def adapter_cost(
    model: Model,
    gpu: Gpu,
    rank: int,
    tp: int,
    *,
    step_s_per_layer: float,
    load_bytes_per_s: float | None = None,
) -> AdapterCost:
    """An estimate: kernels at the datasheet's rates and a time of their own per layer.

    Parameters
    ----------
    load_bytes_per_s : at which each GPU is filled; None for its PCIe link.
    """
    size = adapter_bytes(model, rank, tp)
    return AdapterCost(
        load_s=size / (load_bytes_per_s or gpu.pcie_bytes_per_s),
        step_s=step_s_per_layer * model.num_layers,
        adapter_s=size / gpu.memory_bandwidth_bytes_per_s,
        token_s=2 * adapter_weights(model, rank, tp) / gpu.peak_flops("bf16"),
    )
