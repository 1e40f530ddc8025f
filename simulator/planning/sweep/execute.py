"""Simulate every point of a plan, and keep what came of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import InputError
from simulator.planning.executors import Executor, local
from simulator.planning.sweep.plan import Plan, Run, plan
from simulator.planning.sweep.points import Axes, Sampling, grid, sample
from simulator.planning.sweep.store import Outcome, Store
from simulator.planning.sweep.table import table, write_table
from simulator.planning.sweep.work import Simulations
from simulator.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A finished sweep.

    Attributes
    ----------
    plan : what was asked for.
    outcomes : what became of each of the plan's runs, in their order.
    """

    plan: Plan
    outcomes: Sequence[Outcome]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per point and replicate; columns as `simulator.planning.sweep.table` says."""
        rows = [
            (run.point, run.replicate, outcome)
            for run, outcome in zip(self.plan.runs, self.outcomes, strict=True)
        ]
        rows += [
            (number, replicate, {"error": sentence})
            for number, sentence in self.plan.refused.items()
            for replicate in range(self.plan.replicates)
        ]
        return table(self.plan.points, sorted(rows, key=lambda row: row[:2]))

    @property
    def provenances(self) -> list[str]:
        """Where the step costs of the points come from, each once."""
        return list(dict.fromkeys(o["provenance"] for o in self.outcomes if "error" not in o))


def sweep(
    scenario: Scenario,
    axes: Axes,
    *,
    samples: int | None = None,
    sampling: Sampling = "latin",
    replicates: int = 1,
    jobs: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
) -> Sweep:
    """Simulate a scenario at many points.

    Parameters
    ----------
    scenario : what the points have in common.
    axes : values, or a `Range`, by key: ``{"scheduler.max_num_seqs": [32, 64, 128]}``.
    samples : draw so many points; None takes every combination of values.
    sampling : "latin" covers each axis evenly, "random" draws each point on its own; both
        depend on the scenario's seed only.
    replicates : independent random samples of each point.
    jobs : processes; more than one must be asked for from under ``if __name__ == "__main__"``.
    out : folder for the outcomes and the table.
    resume : use the outcomes that `out` has.

    Raises
    ------
    InputError : for axes that give no valid scenario, or a folder that is in use.
    """
    points = grid(axes) if samples is None else sample(axes, samples, sampling, scenario.seed)
    store = None if out is None else Store(Path(out))
    return run_plan(plan(scenario, points, replicates), local(jobs), store, resume=resume)


def run_plan(
    plan: Plan,
    executor: Executor,
    store: Store | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Simulate the runs of a plan; a run that fails is kept with its error.

    Parameters
    ----------
    executor : where they are simulated; it changes no result.
    store : where outcomes are kept, and with `resume` taken from.
    progress : called with (runs ended, runs in all).
    """
    if store is not None:
        store.open(plan, resume)
    outcomes: dict[int, Outcome] = {}
    if store is not None and resume:
        found = ((index, store.read(run.key)) for index, run in enumerate(plan.runs))
        outcomes = {index: outcome for index, outcome in found if outcome is not None}
    left = [index for index in range(len(plan.runs)) if index not in outcomes]
    todo: list[Run] = [plan.runs[index] for index in left]
    if progress is not None:
        progress(len(outcomes), len(plan.runs))
    for done in executor.map(Simulations.of(plan), todo) if todo else ():
        outcome = {"error": done.error} if done.error is not None else done.value
        outcomes[left[done.index]] = outcome
        if store is not None:
            _keep(store, todo[done.index], outcome)
        if progress is not None:
            progress(len(outcomes), len(plan.runs))
    result = Sweep(plan, [outcomes[index] for index in range(len(plan.runs))])
    if store is not None:
        write_table(result.table, store.folder)
    return result


def _keep(store: Store, run: Run, outcome: Outcome) -> None:
    try:
        store.write(run.key, outcome)
    except OSError as error:
        raise InputError(
            f"--out {store.folder}: cannot be written: {error.strerror}; make room there and go "
            "on with --resume"
        ) from None
