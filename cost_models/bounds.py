"""What sets the pace of a step: memory, compute, communication, launches or the host."""

from __future__ import annotations

from dataclasses import dataclass

from cost_models.catalog import Gpu
from cost_models.step_cost import OpTime, StepTime

# An operation this many times slower than its roofline mostly waits for launches.
LAUNCH_FACTOR = 4.0

WORDS = {
    "memory": "reading weights and KV cache",
    "compute": "matrix products at the tensor cores' pace",
    "communication": "exchange between GPUs",
    "launch": "kernels too small to fill the GPU",
    "host": "the engine's own code, while the GPU waits",
}


def share_of_peak(op: OpTime, gpu: Gpu, dtype: str) -> float | None:
    """An operation's nearness to the datasheet's roofline, from 0 to 1; None if it has none."""
    ideal = _ideal_s(op, gpu, dtype)
    return None if ideal is None else max(ideal) / op.seconds


def _ideal_s(op: OpTime, gpu: Gpu, dtype: str) -> tuple[float, float] | None:
    """Seconds at peak memory bandwidth and at peak FLOP/s."""
    if op.bytes is None:
        return None
    return (
        op.bytes / gpu.memory_bandwidth_bytes_per_s,
        (op.flops or 0.0) / gpu.peak_flops(dtype),
    )


@dataclass(frozen=True)
class Bound:
    """Seconds of a step by what sets their pace, and the largest part.

    Attributes
    ----------
    seconds : by memory, compute, communication, launch and host.
    name : the largest of these.
    """

    seconds: dict[str, float]
    name: str

    def sentence(self, total_s: float) -> str:
        """The bound in words, with its share of the step."""
        share = 100 * self.seconds[self.name] / total_s
        return f"{self.name}-bound: {share:.0f} % of the step is {WORDS[self.name]}"


def bound(step: StepTime, gpu: Gpu, dtype: str) -> Bound:
    """Sort the operations of a step by what sets their pace."""
    seconds = dict.fromkeys(WORDS, 0.0)
    for op in step.ops:
        ideal = _ideal_s(op, gpu, dtype)
        if ideal is None:
            seconds["communication"] += op.seconds
        elif op.seconds > LAUNCH_FACTOR * max(ideal):
            seconds["launch"] += op.seconds
        else:
            seconds["memory" if ideal[0] >= ideal[1] else "compute"] += op.seconds
    seconds["host"] = step.total_s - step.gpu_s
    return Bound(seconds, max(seconds, key=lambda name: seconds[name]))
