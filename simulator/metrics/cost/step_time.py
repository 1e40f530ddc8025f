"""What the time of each step went to: prompts, decoding, reading the KV cache, the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.attribution import decodes_alone_s
from simulator.recording import Steps

if TYPE_CHECKING:
    from simulator.scenario import Resolved

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class StepTime:
    """Seconds of k steps, each (k,).

    Attributes
    ----------
    prefill_s : on the GPU, what the step's prompts add to its decodes.
    weights_s, kv_s : on the GPU, its decodes as they are without context, and what that adds.
    host_s : the rest of the step.
    host_prefill_s : of that for prompts, by the sequences in the step.
    """

    prefill_s: Floats
    weights_s: Floats
    kv_s: Floats
    host_s: Floats
    host_prefill_s: Floats

    def by_purpose(self) -> Floats:
        """(3, k) seconds for prompts, for output tokens, and for reading their context."""
        decode_s = self.weights_s + self.host_s - self.host_prefill_s
        return np.stack((self.prefill_s + self.host_prefill_s, decode_s, self.kv_s))


def step_time_of(steps: Steps, resolved: Resolved) -> StepTime:
    """Split the time of every step as `simulator.metrics.attribution` does."""
    weights_s, kv_s = decodes_alone_s(steps, resolved).T
    host_s = np.maximum(steps.end_s - steps.start_s - steps.gpu_s, 0.0)
    seqs = steps.prefill_seqs + steps.decode_seqs
    prompts = np.divide(steps.prefill_seqs, seqs, out=np.zeros(len(seqs)), where=seqs > 0)
    return StepTime(steps.gpu_s - weights_s - kv_s, weights_s, kv_s, host_s, host_s * prompts)
