"""What a worker of a sweep does: simulate one run and sum it up."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from simulator.planning.executors import compile_kernels
from simulator.planning.executors.parcel import Parcel
from simulator.planning.sweep.plan import Plan, Run
from simulator.planning.sweep.store import Outcome
from simulator.report.files import plain
from simulator.scenario import Scenario


@dataclass
class Simulations:
    """Simulates runs of one scenario; see `simulator.planning.executors.Work`.

    Attributes
    ----------
    scenario : what the runs have in common.
    policies : scheduling policies of the runs.
    files : that they name, relative to the scenario's folder.
    parcel : the files themselves, for machines that do not have them.
    """

    scenario: Scenario
    policies: frozenset[str]
    files: frozenset[str]
    parcel: Parcel | None = None

    @classmethod
    def of(cls, plan: Plan) -> Simulations:
        """What the runs of a plan need."""
        return cls(plan.scenario, plan.policies, plan.files)

    def prepare(self) -> None:
        """Compile what the runs need."""
        compile_kernels((policy, self.scenario.base_dir) for policy in self.policies)

    def portable(self) -> Simulations:
        """The same with the files in it."""
        return replace(self, parcel=Parcel.of(self.files, self.scenario.base_dir))

    @cached_property
    def _local(self) -> Scenario:
        """The scenario where its files are."""
        if self.parcel is None:
            return self.scenario
        self._folder = tempfile.TemporaryDirectory(prefix="servecast-")  # as long as the worker
        return self.scenario.moved_to(self.parcel.unpack(Path(self._folder.name)))

    def __call__(self, run: Run, /) -> Outcome:
        """The summary of a run, and where its step costs come from."""
        from simulator.simulation import simulate
        from simulator.workload.traces.kept import keep_traces

        keep_traces()
        result = simulate(self._local.with_overrides(run.overrides), replicate=run.replicate)
        provenance = result.resolved.cost.provenance
        # As it is read back from a file, so that a resumed sweep gives the same bytes.
        outcome: Outcome = plain({"summary": result.summary, "provenance": provenance})
        return outcome
