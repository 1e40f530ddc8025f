"""KV blocks that fit on a GPU, summed up as the engine does it when it starts.

vLLM takes ``gpu_memory_utilization`` of what CUDA reports, loads the weights, runs one
step of ``max_num_batched_tokens`` tokens and ``max_num_seqs`` sequences to see the peak of
its activations, and gives the rest to the KV cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cost_models.catalog import EngineDefaults, Gpu, Model, engine_defaults
from cost_models.errors import InputError
from cost_models.lora import adapter_bytes
from cost_models.parallelism import Parallelism
from cost_models.pipeline import stage_models

GIB = 2**30

# What an engine process holds outside PyTorch's allocator beside the CUDA context.
NON_TORCH_BYTES = int(0.15 * GIB)
# NCCL's and the custom all-reduce's buffers on each rank of a tensor-parallel group.
COMMUNICATION_BYTES = int(0.4 * GIB)
# CUDA graphs: the engine's estimate of their private memory per captured layer.
CUDA_GRAPH_BYTES_PER_LAYER = int(5e6)
# Logits in bf16, their float32 copy, and the sampler's working copies of it.
SAMPLER_BYTES_PER_LOGIT = 2 + 4 + 4
# Experts take no more tokens at a time (VLLM_FUSED_MOE_CHUNK_SIZE).
EXPERT_CHUNK_TOKENS = 32768


@dataclass(frozen=True)
class MemoryBudget:
    """How one GPU's memory is divided.

    Attributes
    ----------
    num_gpu_blocks : KV blocks that fit, the null block included, as the engine logs it.
    block_size : tokens per block.
    kv_bytes_per_token : bytes of KV cache per token on one rank.
    lines : (label, bytes) of the sum; what is taken away is negative, the last is the rest.
    """

    num_gpu_blocks: int
    block_size: int
    kv_bytes_per_token: int
    lines: tuple[tuple[str, int], ...]

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.num_gpu_blocks * self.block_size


def activation_bytes(
    model: Model, split: Parallelism, max_num_batched_tokens: int, max_num_seqs: int
) -> int:
    """Peak of the activations of one step on one GPU, in bytes.

    The larger of two moments: the MLP's products with two residual streams beside them, and
    the sampler's copies of the logits.  Engines that share experts gather the tokens of all.
    """
    each, tokens = model.mlp_matrices * model.intermediate_size // split.tp, max_num_batched_tokens
    products = tokens * each
    if model.experts is not None:  # in and out of the experts, and their products, per token
        width = model.experts.intermediate_size // split.expert_tp
        each = model.experts.per_token * (2 * model.hidden_size + 3 * width)
        products = min(split.dp * tokens, EXPERT_CHUNK_TOKENS) * each
        if split.dp > 1:
            products += 2 * split.dp * tokens * model.hidden_size
    mlp = 2 * (products + 2 * tokens * model.hidden_size)
    seqs = min(max_num_seqs, tokens)
    sampler = seqs * model.vocab_size * SAMPLER_BYTES_PER_LOGIT + 4 * tokens * model.hidden_size
    return int(max(mlp, sampler))


def kv_budget(
    model: Model,
    gpu: Gpu,
    tp: int = 1,
    *,
    split: Parallelism | None = None,
    gpu_memory_utilization: float | None = None,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    block_size: int | None = None,
    defaults: EngineDefaults | None = None,
    max_loras: int = 0,
    max_lora_rank: int = 0,
) -> MemoryBudget:
    """KV blocks that fit on each of `tp` GPUs.

    Of pipeline stages, on the one where the fewest fit: all have a block for the same tokens.

    Parameters
    ----------
    model, gpu : from the catalogue.
    tp : tensor-parallel size.
    split : in place of `tp`, where there is more than tensor parallelism.
    gpu_memory_utilization, max_num_batched_tokens, max_num_seqs, block_size : None takes
        the engine's default.
    defaults : of the engine's release; the newest vLLM when None.
    max_loras, max_lora_rank : slots for LoRA adapters, and the rank for which they have room.

    Raises
    ------
    InputError : when the weights and activations leave no room, saying by how much and what
        would make them fit.
    """
    split = split or Parallelism(tp)
    split.check(model)
    known = defaults or engine_defaults("vllm", None, gpu)
    share = (
        known.gpu_memory_utilization if gpu_memory_utilization is None else gpu_memory_utilization
    )
    if not 0 < share <= 1:
        raise InputError(
            f"kv_cache.gpu_memory_utilization = {share}: give a share above 0 and up to 1."
        )
    tokens = max_num_batched_tokens or known.max_num_batched_tokens
    seqs = max_num_seqs or known.max_num_seqs
    block = block_size or known.block_size
    sums = []
    for stage in stage_models(model, split.pp):
        lines = _lines(stage, gpu, split, known, share, tokens, seqs)
        if max_loras:
            slots = max_loras * adapter_bytes(stage, max_lora_rank, split.tp)
            lines.append((f"slots of {max_loras} LoRA adapters, rank {max_lora_rank}", -slots))
        rest = sum(amount for _, amount in lines)
        block_bytes = block * stage.kv_bytes_per_token(split.tp)
        sums.append((rest // block_bytes, rest, block_bytes, lines))
    blocks, rest, block_bytes, lines = min(sums, key=lambda found: found[0])
    if blocks < 2:
        raise _does_not_fit(model, gpu, split, share, 2 * block_bytes - rest, max_loras)
    lines.append(("KV cache", rest))
    return MemoryBudget(
        num_gpu_blocks=blocks,
        block_size=block,
        kv_bytes_per_token=block_bytes // block,
        lines=tuple(lines),
    )


def _lines(
    stage: Model,
    gpu: Gpu,
    split: Parallelism,
    known: EngineDefaults,
    share: float,
    tokens: int,
    seqs: int,
) -> list[tuple[str, int]]:
    """(label, bytes) of a GPU's memory, and what is taken away for other than the KV cache."""
    free = known.utilization_of == "free"
    taken = 1.0 if free else share
    lines = [
        (f"{gpu.name}: {taken:g} of CUDA-visible memory", int(taken * gpu.cuda_visible_bytes)),
        (f"weights ({stage.weight_dtype}, 1 of {split.gpus} ranks)", -split.weight_bytes(stage)),
        ("CUDA and libraries", -NON_TORCH_BYTES),
    ]
    if known.utilization_of != "static":
        activations = activation_bytes(stage, split, tokens, seqs)
        lines.append((f"peak activations ({tokens} tokens, {seqs} sequences)", -activations))
    # Engines of a dense model have nothing to tell each other.
    if (split.gpus if stage.experts else split.engine_gpus) > 1:
        lines.append(("communication buffers", -COMMUNICATION_BYTES))
    if known.cuda_graph_memory_counted:
        lines.append(("CUDA graphs", -CUDA_GRAPH_BYTES_PER_LAYER * stage.num_layers))
    if free:
        left = max(0, sum(amount for _, amount in lines))
        lines.append((f"{1 - share:.2g} of what is free", -int((1 - share) * left)))
    return lines


def _heaviest(model: Model, split: Parallelism) -> int:
    """Bytes of weights on the GPU that has most."""
    return max(split.weight_bytes(stage) for stage in stage_models(model, split.pp))


def _does_not_fit(
    model: Model, gpu: Gpu, split: Parallelism, share: float, missing: int, max_loras: int
) -> InputError:
    """The refusal of a model that leaves no room, with what would help."""
    weights = _heaviest(model, split)
    slots = f", slots of {max_loras} LoRA adapters" if max_loras else ""
    remedies = ["a smaller scheduler.lora.max_loras or max_lora_rank"] if max_loras else []
    for key in ("tp", "pp", "dp"):
        name = {"tp": "tensor", "pp": "pipeline", "dp": "data"}[key]
        if key == "dp" and model.experts is None:  # each engine has the whole model
            continue
        for times in (2, 4, 8):
            more = replace(split, **{key: times * getattr(split, key)})
            try:
                more.check(model)
            except InputError:
                break
            if weights - _heaviest(model, more) > missing + COMMUNICATION_BYTES:
                remedies.append(f"{name}_parallel {getattr(more, key)}")
                break
    if model.weight_dtype == "bf16":
        fp8_saved = (model.linear_params(split.tp) + split.expert_bytes(model) // 2) // split.pp
        if fp8_saved > missing:
            remedies.append("weight_dtype fp8")
    needed = share + missing / gpu.cuda_visible_bytes
    if needed <= 0.98:
        remedies.append(f"gpu_memory_utilization {needed + 0.005:.2f}")
    remedies.append("a GPU with more memory")
    return InputError(
        f"{model.name} does not fit on {gpu.name} with {split}: weights of "
        f"{weights / GIB:.1f} GiB{slots} and activations exceed "
        f"{share:g} x {gpu.cuda_visible_bytes / GIB:.1f} GiB by {missing / GIB:.1f} GiB; what "
        f"would make it fit: {' or '.join(remedies)}."
    )
