"""What limits a run: where the replicas' time went, and what kept requests waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit
from cost_models.kernel import CostTables, step_time
from simulator.metrics.latency import Population
from simulator.metrics.leases import overlap_s, replica_s, starting
from simulator.metrics.memory import held_back, short_of_blocks
from simulator.metrics.steps import in_window
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved

LIMITS = {
    "arrivals": "Arrivals (idle, no work)",
    "host": "Host (the engine's own code)",
    "prefill_compute": "Prefill compute",
    "decode_bandwidth": "Decode bandwidth",
    "kv_blocks": "KV blocks",
    "max_num_seqs": "Seats (max_num_seqs)",
    "static_batch": "Static batch in progress",
    "cold_start": "Cold start (paid for, not ready)",
    "max_loras": "LoRA slots (max_loras)",
}
_ARRIVALS, _HOST, _PREFILL, _DECODE, _KV, _SEATS, _BATCH, _COLD, _SLOTS = range(len(LIMITS))


def limits(recording: Recording, who: Population, resolved: Resolved) -> list[dict[str, Any]]:
    """Share of the replicas' time that each resource held the work back, largest first.

    Every moment of every replica is counted once, so that the shares add up to 1:

    - no step runs: ``arrivals``, or ``cold_start`` while the replica is ordered and starts;
    - a step runs and requests stay in the queue although it has been composed.  Then what
      kept them out is the limit, for the whole step: ``max_num_seqs`` if every seat is
      taken; ``static_batch`` under the static policy (nobody joins a running batch);
      ``kv_blocks`` where only these are missing (`short_of_blocks`); ``max_loras`` where
      only those wait whose LoRA adapter has no slot.  With the token budget
      used up the step's own time is the limit, split as below;
    - otherwise the step's own time: ``host``, and the GPU's time split into
      ``decode_bandwidth``, what the step's decodes would take alone, and
      ``prefill_compute``, the rest.
    """
    steps = recording.steps
    rows = in_window(steps, who)
    length_s = steps.end_s[rows] - steps.start_s[rows]
    there_s = replica_s(recording, who)
    if there_s <= 0:
        return []
    spec = resolved.scenario
    static = spec.scheduler.policy == "static"
    seats = resolved.max_num_seqs
    seconds = np.zeros(len(LIMITS))
    short = short_of_blocks(recording, resolved)
    _attribute(
        seconds,
        resolved.cost.tables(seats, seats),
        length_s,
        steps.gpu_s[rows],
        steps.overlapped_s[rows],
        steps.host_s[rows],
        steps.decode_seqs[rows],
        steps.context_tokens[rows],
        steps.prefill_seqs[rows],
        steps.running[rows],
        steps.waiting[rows],
        resolved.shares_experts,
        short[rows],
        (held_back(recording, resolved) & ~short)[rows] & (spec.scheduler.lora is not None),
        static,
        seats,
    )
    seconds[_COLD] = overlap_s(starting(recording), who.start_s, who.end_s)
    seconds[_ARRIVALS] = max(there_s - float(length_s.sum()) - seconds[_COLD], 0.0)
    shares = seconds / there_s
    named = [
        {"resource": name, "share": float(share)}
        for name, share in zip(LIMITS, shares, strict=True)
        if share > 0
    ]
    return sorted(named, key=lambda limit: -float(str(limit["share"])))


@njit
def _attribute(
    seconds: NDArray[np.float64],
    cost: CostTables,
    length_s: NDArray[np.float64],
    gpu_s: NDArray[np.float64],
    overlapped_s: NDArray[np.float64],
    host_s: NDArray[np.float64],
    decode_seqs: NDArray[np.int32],
    context_tokens: NDArray[np.int64],
    prefill_seqs: NDArray[np.int32],
    running: NDArray[np.int32],
    waiting: NDArray[np.int32],
    together: bool,
    short: NDArray[np.bool_],
    no_slot: NDArray[np.bool_],
    static: bool,
    seats: int,
) -> None:
    """Add to `seconds` per limit, in the order of `LIMITS`; one pass, nothing copied."""
    for i in range(len(length_s)):
        if waiting[i] > 0:
            if static:
                seconds[_BATCH] += length_s[i]
                continue
            if running[i] >= seats:
                seconds[_SEATS] += length_s[i]
                continue
            if short[i]:
                seconds[_KV] += length_s[i]
                continue
            if no_slot[i]:
                seconds[_SLOTS] += length_s[i]
                continue
        decode_s = gpu_s[i]
        if prefill_seqs[i] > 0 or together:
            decode_s = 0.0
            n = int(decode_seqs[i])
            if n > 0:
                # The longest context is not recorded; the mean stands for it.
                alone_s, _ = step_time(
                    cost, n, n, context_tokens[i], context_tokens[i] // n, 0, 0, 0.0, 0, n
                )
                pass_s = gpu_s[i] + overlapped_s[i]
                decode_s = min(alone_s, pass_s)
                if overlapped_s[i] > 0.0:
                    decode_s *= gpu_s[i] / pass_s
        seconds[_HOST] += host_s[i]
        seconds[_DECODE] += decode_s
        seconds[_PREFILL] += gpu_s[i] - decode_s


def bottleneck(found: list[dict[str, Any]]) -> str | None:
    """Name of the largest limit, or None for a run without time."""
    return str(found[0]["resource"]) if found else None
