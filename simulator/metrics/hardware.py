"""How much of the hardware's peak a run used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.metrics.latency import Population
from simulator.metrics.leases import replica_s
from simulator.metrics.steps import in_window
from simulator.recording import Recording

if TYPE_CHECKING:
    from cost_models.catalog.devices import Gpu
    from cost_models.catalog.model_shape import Model
    from cost_models.parallelism import Parallelism

EMBEDDING_BYTES = 2  # embeddings stay bf16 whatever the linear layers are


def useful_flops(recording: Recording, who: Population, model: Model) -> float:
    """FLOPs that the counted requests' tokens need, however the engine came by them.

    A request of p prompt and n output tokens computes T = p + n - 1 tokens; token i
    attends to i tokens, so attention has T(T+1)/2 query-key pairs.  Tokens from a prefix
    cache need nothing; padding, finished rows and recomputed tokens are not useful.
    Requests without a first token, and the warm-up's, are left out.
    """
    outcome = recording.outcome
    rows = who.counted & (outcome.generated_tokens > 0)
    sampled = outcome.generated_tokens[rows]
    computed = recording.requests.prompt_tokens[rows] + sampled - 1
    cached = outcome.cached_tokens[rows]
    pairs = (computed * (computed + 1) - cached * (cached + 1)) / 2
    return (
        float((computed - cached).sum()) * model.linear_flops_per_token
        + float(sampled.sum()) * model.lm_head_flops
        + float(pairs.sum()) * model.attention_flops_per_token_context
    )


def bytes_read(recording: Recording, who: Population, model: Model, split: Parallelism) -> float:
    """Bytes that all GPUs read: weights once per step, and the decodes' KV cache.

    Of E experts with k per token, a step of m tokens reads E·(1 − (1 − k/E)^m), as if each
    token chose evenly; engines that share them meet as many as if all had the same step, and
    read their part.  The embedding table is looked up and not read, unless it serves as
    lm_head too; what prefill chunks read of their past is left out, since prefill is not
    bound by it.
    """
    steps = recording.steps
    rows = in_window(steps, who)
    weights = split.weight_bytes(model)
    if not model.tie_word_embeddings:
        weights -= -(-model.vocab_size // split.tp) * model.hidden_size * EMBEDDING_BYTES
    num_steps = len(steps.start_s[rows])
    weights_read = num_steps * float(weights)
    if model.experts is not None:
        tokens = steps.scheduled_tokens[rows] + steps.padding_tokens[rows] + steps.bubble_seqs[rows]
        missed = (1.0 - model.experts.per_token / model.experts.num_experts) ** (split.dp * tokens)
        weights_read -= split.expert_bytes(model) * float(missed.sum())
    context = int(steps.context_tokens[rows].sum(dtype=np.int64))
    return float(split.tp) * (weights_read + context * model.kv_bytes_per_token(split.tp))


def mfu(recording: Recording, who: Population, model: Model, gpu: Gpu, split: Parallelism) -> float:
    """Model FLOPs utilisation: useful FLOPs / (time · GPUs · dense peak of the GEMMs)."""
    peak = gpu.peak_flops(model.weight_dtype) * _gpu_s(recording, who, split)
    return useful_flops(recording, who, model) / peak if peak > 0 else float("nan")


def mbu(recording: Recording, who: Population, model: Model, gpu: Gpu, split: Parallelism) -> float:
    """Memory bandwidth utilisation: `bytes_read` / (time · GPUs · peak bandwidth)."""
    peak = gpu.memory_bandwidth_bytes_per_s * _gpu_s(recording, who, split)
    return bytes_read(recording, who, model, split) / peak if peak > 0 else float("nan")


def _gpu_s(recording: Recording, who: Population, split: Parallelism) -> float:
    """Seconds of all GPUs together in the observed time; `replicas` of a recording are engines."""
    return split.engine_gpus * replica_s(recording, who)
