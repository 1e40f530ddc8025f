"""Compile before workers start, which would otherwise all do it at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def compile_kernels(policies: Iterable[tuple[str, Path]] = ()) -> None:
    """See that workers find compiled kernels in the cache.

    Parameters
    ----------
    policies : ``(scheduler.policy, folder that it is relative to)`` of what will be simulated.
    """
    from cost_models.jit import PLAIN
    from simulator.engine.compiled import runner
    from simulator.scenario import Scenario
    from simulator.schedulers.loader import load_policy
    from simulator.simulation import simulate

    if PLAIN:
        return
    small = Scenario.from_yaml("seed-linear", ["workload.num_requests=10"])
    assert simulate(small).summary["completed"] == 10
    for name, base_dir in sorted(set(policies)):
        runner(load_policy(name, base_dir))
