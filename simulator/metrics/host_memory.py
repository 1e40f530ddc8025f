"""KV that is computed twice, or copied to host memory and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.metrics.latency import Rows
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


def preemption_figures(recording: Recording, rows: Rows, resolved: Resolved) -> dict[str, Any]:
    """Preemptions of the requests in `rows`, and what they cost.

    ``preemption_lost_s`` is time of the replicas: seconds that steps waited for copies, over
    the whole run, and those in which lost tokens were computed again, at the price per
    token of a step that computes nothing but a prompt of max_num_batched_tokens.
    """
    outcome = recording.outcome
    recomputed = int(outcome.recomputed_tokens[rows].sum())
    scenario = resolved.scenario
    tp = scenario.cluster.tensor_parallel
    block_bytes = recording.block_size * resolved.model.kv_bytes_per_token(tp) * tp
    lost_s = recording.transfer_s
    if recomputed:
        prompt = min(resolved.max_num_batched_tokens, resolved.max_model_len)
        lost_s += recomputed * resolved.cost.step(prefills=[(prompt, 0)]).gpu_s / prompt
    return {
        "preemptions": int(outcome.preemptions[rows].sum()),
        "recomputed_tokens": recomputed,
        "swapped_bytes": int(outcome.swapped_blocks[rows].sum()) * block_bytes,
        "preemption_lost_s": lost_s,
    }


def adapter_figures(recording: Recording) -> dict[str, Any]:
    """LoRA adapters copied to the GPUs, and how long steps of all replicas waited for them."""
    return {
        "adapter_loads": recording.adapter_loads,
        "adapter_load_s": recording.adapter_load_s,
    }


def offload_figures(recording: Recording, resolved: Resolved) -> dict[str, Any]:
    """Copies to and from the prefix cache's second tier, over the whole run."""
    tp = resolved.scenario.cluster.tensor_parallel
    gpu_bytes = recording.block_size * resolved.model.kv_bytes_per_token(tp)
    return {
        "offload_stored_bytes": recording.stored_blocks * gpu_bytes * tp,
        "offload_loaded_bytes": recording.loaded_blocks * gpu_bytes * tp,
        "offload_load_s": recording.loaded_blocks * gpu_bytes / resolved.gpu.pcie_bytes_per_s,
    }
