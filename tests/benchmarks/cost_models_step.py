"""How long pricing takes: ``python tests/benchmarks/cost_models_step.py``.

Prints nanoseconds per step in a compiled loop, decodes alone and with a prompt every
sixteenth step, and seconds to load a model with its tables.
"""

from __future__ import annotations

import time

from cost_models import StepCost
from cost_models.jit import njit
from cost_models.kernel import CostTables, step_time

STEPS = 3_000_000
REPEATS = 7


@njit
def decodes(cost: CostTables, steps: int) -> float:
    """Price steps of 200 sequences at a rising context."""
    total_s = 0.0
    context = 200
    for _ in range(steps):
        context += 1
        if context > 2000:
            context = 200
        gpu_s, host_s = step_time(cost, 200, 200, 200 * context, context + 100, 0, 0, 0.0, 0, 200)
        total_s += gpu_s + host_s
    return total_s


@njit
def mixed(cost: CostTables, steps: int) -> float:
    """The same, with a chunk of 512 tokens in every sixteenth step."""
    total_s = 0.0
    context = 200
    for i in range(steps):
        context += 1
        if context > 2000:
            context = 200
        chunk = 0 if i & 15 else 512
        seqs = min(1, chunk)
        gpu_s, host_s = step_time(
            cost,
            200 + chunk,
            200,
            200 * context,
            context + 100,
            seqs,
            chunk,
            chunk * 256.0,
            chunk,
            200 + seqs,
        )
        total_s += gpu_s + host_s
    return total_s


def main() -> None:
    """Print the figures, the best of several repeats."""
    started_s = time.perf_counter()
    tables = StepCost.load("llama-3.1-70b", "h100_sxm", 4).tables(8192, 1024)
    print(f"load and tables: {time.perf_counter() - started_s:.3f} s")
    for loop in (decodes, mixed):
        loop(tables, 10)
        best_s = float("inf")
        for _ in range(REPEATS):
            started_s = time.perf_counter()
            loop(tables, STEPS)
            best_s = min(best_s, time.perf_counter() - started_s)
        print(f"{loop.__name__}: {1e9 * best_s / STEPS:.1f} ns per step")


if __name__ == "__main__":
    main()
