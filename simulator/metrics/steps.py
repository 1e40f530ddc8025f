"""What the engine's steps say: batch, utilisation, padding, bubbles, KV cache."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import Population
from simulator.metrics.leases import block_s, replica_s
from simulator.metrics.quantiles import weighted_sum
from simulator.recording import Recording, Steps

if TYPE_CHECKING:
    from simulator.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """Time-weighted figures of the steps that started after the warm-up.

    "Time" is the replicas' observed time together (see `Population.observed_s`), idle
    included; a mean over steps is weighted by the steps' length.  NaN where there is
    nothing to divide by.

    Attributes
    ----------
    num_steps : engine steps.
    mean_batch_size, max_batch_size : running requests, mean over step time and at most.
    mean_decode_seqs : sequences that decode usefully, mean over step time.
    mean_tokens_per_step : useful tokens per step.
    utilisation : share of time in which a step runs.
    gpu_share, host_share : share of time in which the GPU computes, and in which it
        waits for the engine's own code between its kernels.
    decode_stall_share : share of the running requests' time that they spend in steps
        which give them no token (a prefill of others goes first).
    tail_bubble_share : share of slot-steps spent on finished rows of a static batch.
    padding_share : share of computed tokens that are padding of a static batch.
    draft_acceptance : share of the tokens drafted by speculation that were kept.
    tokens_per_decode : output tokens for each sequence that decodes in a step.
    kv_usage_mean, kv_usage_peak : blocks held / usable blocks, over time and at most.
    kv_capacity_tokens : tokens that the KV blocks of all replicas hold.
    kv_internal_fragmentation : share of the slots held that are for no token: the rest of
        last blocks, or of what a contiguous reservation was rounded up to.
    kv_external_fragmentation : share of the free blocks outside the longest free piece,
        which a contiguous reservation cannot use; 0 with paged blocks.
    kv_reserved_unused : share of the slots held that are reserved (contiguous allocators,
        static batches) for tokens that come later or never.
    """

    num_steps: int
    mean_batch_size: float
    max_batch_size: int
    mean_decode_seqs: float
    mean_tokens_per_step: float
    utilisation: float
    gpu_share: float
    host_share: float
    decode_stall_share: float
    tail_bubble_share: float
    padding_share: float
    draft_acceptance: float
    tokens_per_decode: float
    kv_usage_mean: float
    kv_usage_peak: float
    kv_capacity_tokens: int
    kv_internal_fragmentation: float
    kv_external_fragmentation: float
    kv_reserved_unused: float

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return asdict(self)


def reserves_room(scenario: Scenario) -> bool:
    """Whether requests hold room for their declared maximum, not for what they have."""
    return scenario.kv_cache.allocator != "paged" or scenario.scheduler.policy == "static"


def in_window(steps: Steps, who: Population) -> NDArray[np.bool_] | slice:
    """Rows of the steps that start in the observed time; a slice where that is all."""
    inside = (steps.start_s >= who.start_s) & (steps.start_s < who.end_s)
    return slice(None) if inside.all() else inside


def step_figures(
    recording: Recording,
    who: Population,
    *,
    reserved: NDArray[np.int64] | None = None,
    whole_blocks: bool = False,
) -> StepFigures:
    """Sum up the steps of a run.

    Parameters
    ----------
    recording : the run.
    who : what is counted, from `population`.
    reserved : (num_steps,) tokens for which room was reserved, from `memory.reserved_tokens`.
    whole_blocks : where that is None, all slots of the blocks held are reserved for tokens
        (a static batch), else none.
    """
    steps = recording.steps
    rows = in_window(steps, who)
    length_s = steps.end_s[rows] - steps.start_s[rows]
    num_steps = len(length_s)
    step_s = float(length_s.sum())
    there_s = replica_s(recording, who)

    def integral(column: NDArray[Any]) -> float:
        return weighted_sum(column[rows], length_s)

    def total(column: NDArray[Any]) -> int:
        return int(column[rows].sum(dtype=np.int64))

    running = integral(steps.running)
    stalled = steps.running - steps.decode_seqs - steps.prefill_seqs - steps.bubble_seqs
    if steps.overlapped_s.any():  # of several stages: the others are in another one's step
        stalled = np.zeros_like(stalled)
    bubbles, padding = total(steps.bubble_seqs), total(steps.padding_tokens)
    useful_tokens = total(steps.scheduled_tokens)
    decodes = total(steps.decode_seqs)
    accepted = useful_tokens - decodes - total(steps.prefill_tokens)
    slots = total(steps.decode_seqs) + total(steps.prefill_seqs) + bubbles
    blocks = integral(steps.kv_blocks)
    # Whole numbers are subtracted before time comes in: no share is -1e-17.
    capacity = recording.kv_blocks_of_replicas()
    usable = capacity[steps.replica] if recording.handovers else recording.usable_kv_blocks
    free_blocks = usable - steps.kv_blocks
    kv_slots = steps.kv_blocks * np.int64(recording.block_size)
    meant = (kv_slots if whole_blocks else steps.kv_tokens) if reserved is None else reserved
    held = integral(kv_slots)
    fullest = (steps.kv_blocks / usable)[rows]
    return StepFigures(
        num_steps=num_steps,
        mean_batch_size=_ratio(running, step_s),
        max_batch_size=int(steps.running[rows].max()) if num_steps else 0,
        mean_decode_seqs=_ratio(integral(steps.decode_seqs), step_s),
        mean_tokens_per_step=_ratio(useful_tokens, num_steps),
        utilisation=_ratio(step_s, there_s),
        gpu_share=_ratio(float(steps.gpu_s[rows].sum()), there_s),
        host_share=_ratio(float(steps.host_s[rows].sum()), there_s),
        decode_stall_share=_ratio(integral(np.maximum(stalled, 0)), running) if running else 0.0,
        tail_bubble_share=_ratio(bubbles, slots),
        padding_share=_ratio(padding, useful_tokens + bubbles + padding),
        draft_acceptance=_ratio(accepted, accepted + total(steps.rejected_tokens)),
        tokens_per_decode=_ratio(decodes + accepted, decodes),
        kv_usage_mean=_ratio(blocks, block_s(recording, who)),
        kv_usage_peak=float(fullest.max()) if num_steps else 0.0,
        kv_capacity_tokens=int(capacity.sum()) * recording.block_size,
        kv_internal_fragmentation=_ratio(integral(kv_slots - meant), held),
        kv_external_fragmentation=_ratio(
            integral(free_blocks - steps.largest_gap_blocks), integral(free_blocks)
        ),
        kv_reserved_unused=_ratio(integral(meant - steps.kv_tokens), held),
    )


def peak_output_tokens_per_s(recording: Recording, who: Population) -> float:
    """Output tokens of the best second, counted in whole seconds from `who.start_s`.

    As ``vllm bench serve`` does, so a run shorter than a second has the tokens of a
    second that it did not fill.
    """
    steps = recording.steps
    rows = in_window(steps, who)
    # Seconds in which a step ends, numbered; of the others there may be billions.
    _, second = np.unique(np.floor(steps.end_s[rows] - who.start_s), return_inverse=True)
    return float(np.bincount(second, weights=steps.sampled_tokens[rows]).max(initial=0.0))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
