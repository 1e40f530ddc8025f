"""A scenario as something that can be run at any load, again and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import InputError
from simulator.metrics.latency import e2el_s
from simulator.planning.capacity.load import Load, load_of
from simulator.planning.capacity.margin import Margin, margin, objectives
from simulator.planning.stationarity import warm_up_s
from simulator.planning.statistics import Interval, mean_interval, recorded_interval
from simulator.recording import FINISHED
from simulator.scenario import Resolved, Scenario, resolve
from simulator.simulation import Result, simulate_requests
from simulator.workload import build_requests
from simulator.workload.recorded import is_recording

if TYPE_CHECKING:
    from simulator.workload.requests import Requests

# A run lasts at least so many median latencies, or its start and end are most of it.
LATENCIES_PER_RUN = 20
# Fewer requests say little of a percentile, and a queue that starts empty has not settled: eighty
# of so many lie beyond the 99th percentile.
FEWEST_REQUESTS = 8000
LONGEST = 64_000  # requests to which runs are lengthened where replicates scatter
MOST_REQUESTS = 1_000_000


@dataclass
class _Sample:
    """Requests that systems share which differ only in their machines."""

    requests: dict[Any, Requests] = field(default_factory=dict)
    skip_share: float = 0.0
    fewest: int = FEWEST_REQUESTS


@dataclass
class Work:
    """What a system and all that were changed from it have done so far."""

    runs: int = 0


class System:
    """A scenario whose load and machines can be changed.

    Runs of the same replicate share their random numbers, whatever the load, the machines
    and the settings are; only a workload whose number of requests must grow with the load
    draws more of them.

    Parameters
    ----------
    scenario : with at least one limit on a percentile or a mean.

    Raises
    ------
    InputError : for a scenario without limits, without a rate, or that cannot be run.
    """

    def __init__(self, scenario: Scenario):
        if not objectives(scenario):
            raise InputError(
                "capacity needs a limit on a percentile or a mean; give one in slo, or as "
                "--slo p99_ttft_ms=500"
            )
        if scenario.cluster.autoscaler is not None:
            raise InputError(
                "capacity finds what a given number of replicas carries, which "
                "cluster.autoscaler changes; ask with --set cluster.autoscaler=null"
            )
        self.scenario = scenario
        self._sample = _Sample()
        self._resolved: dict[Any, Resolved] = {}
        self._margins: dict[tuple[float, int], Margin] = {}
        resolved = self.resolved(0)
        self.load: Load = load_of(scenario, self._requests(resolved, 0, None))
        self.recorded = is_recording(scenario.workload, scenario.base_dir)
        self.work = Work()
        self.typical_s = 0.0

    def changed(self, overrides: Iterable[str]) -> System:
        """The same system with keys of its scenario changed.

        Raises
        ------
        InputError : for what cannot be, a model that does not fit, and so on.
        """
        overrides = list(overrides)
        other = object.__new__(System)
        other.scenario = self.scenario.with_overrides(overrides)
        other._resolved, other._margins, other.work = {}, {}, self.work
        other.recorded = is_recording(other.scenario.workload, other.scenario.base_dir)
        other.typical_s = self.typical_s
        other._sample = self._sample
        if any(text.startswith(("workload", "seed")) for text in overrides):
            other._sample = _Sample(skip_share=self._sample.skip_share, fewest=self._sample.fewest)
        resolved = other.resolved(0)
        other.load = load_of(other.scenario, other._requests(resolved, 0, None))
        return other

    def interval(self, values: Sequence[float]) -> Interval:
        """A figure over replicates: their mean, or the recording's own and its bootstraps'."""
        return recorded_interval(values) if self.recorded else mean_interval(values)

    @property
    def replicas(self) -> int:
        """Engines behind the router."""
        return self.scenario.cluster.replicas

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.resolved(0).num_gpus

    @property
    def price_per_hour(self) -> float:
        """Dollars per hour of all GPUs."""
        return self.resolved(0).price_per_hour

    def resolved(self, replicate: int) -> Resolved:
        """The machines; a static engine's depend on the largest output of the replicate."""
        key = replicate if self.scenario.scheduler.policy == "static" else 0
        if key not in self._resolved:
            self._resolved[key] = resolve(self.scenario, replicate=replicate)
        return self._resolved[key]

    def requests(self) -> Requests:
        """Requests of the scenario as it stands."""
        return self._requests(self.resolved(0), 0, None)

    def margin(self, load: float, replicate: int) -> Margin:
        """How far a run at this load is from the limits."""
        key = (load, replicate)
        if key not in self._margins:
            result = self._simulate(load, replicate)
            skip = int(self._sample.skip_share * len(result.recording.requests))
            self._margins[key] = margin(result.recording, self.scenario, skip)
            if not self.typical_s and self._margins[key].met:
                self.typical_s = self._margins[key].e2el_s
        return self._margins[key]

    def result(self, load: float, replicate: int = 0) -> Result:
        """A run at this load with all its figures, without the warm-up."""
        result = self._simulate(load, replicate)
        arrivals = result.recording.requests.arrival_s
        skip = int(self._sample.skip_share * len(arrivals))
        scenario = result.resolved.scenario.with_overrides(
            [*self.load.overrides(load), f"workload.num_requests={len(arrivals)}"]
            if self.scenario.workload.num_requests is not None
            else self.load.overrides(load)
        )
        if skip and not scenario.cut_s:
            scenario = scenario.with_overrides([f"warmup_s={float(arrivals[skip])!r}"])
        return replace(result, resolved=replace(result.resolved, scenario=scenario))

    def settle(self, load: float) -> None:
        """Decide how long runs are, and how much is left out at their start; see `warm_up_s`.

        Decided once, at a load near the answer, and the cut as a share of the requests, so
        that runs at other loads judge the same ones.
        """
        recording = self._simulate(load, 0).recording
        done = recording.outcome.status == FINISHED
        if not done.any():
            return
        self.typical_s = float(np.median(e2el_s(recording.outcome)[done]))
        if not self.scenario.cut_s:  # else the scenario says
            early = recording.outcome.arrival_s < warm_up_s(recording)
            self._sample.skip_share = float(early.mean())
        self._margins.clear()

    def lengthen(self, factor: float) -> bool:
        """Make runs up to so many times as long, where the workload allows it; whether it does."""
        given = self.scenario.workload.num_requests
        if given is None or self.recorded:
            return False
        before = max(given, self._sample.fewest)
        self._sample.fewest = int(min(before * factor, max(LONGEST, before)))
        self._margins.clear()
        return self._sample.fewest > before

    @property
    def skip_share(self) -> float:
        """Share of the requests that is left out at the start of each run."""
        return self._sample.skip_share

    def num_requests(self, load: float) -> int | None:
        """Requests of a run; None where the scenario says it otherwise."""
        given = self.scenario.workload.num_requests
        if given is None:
            return None
        needed = load * LATENCIES_PER_RUN * self.typical_s
        if self.load.unit == "clients":
            needed = load * LATENCIES_PER_RUN  # each client as many, one after the other
        count = float(max(given, self._sample.fewest))
        while count < needed:  # in steps, so that near loads share their requests
            count *= 1.5
        return min(int(count), max(MOST_REQUESTS, given))

    def _simulate(self, load: float, replicate: int) -> Result:
        self.work.runs += 1
        resolved = self.resolved(replicate)
        return simulate_requests(resolved, self._requests(resolved, replicate, load))

    def _requests(self, resolved: Resolved, replicate: int, load: float | None) -> Requests:
        """Requests of a replicate at a load; None: as the scenario stands."""
        if load is not None and self.load.stretches:
            count = self.num_requests(load)
            base = self._drawn(resolved, replicate, [], count)
            return replace(base, arrival_s=base.arrival_s * (self.load.base / load))
        if load is None:
            return self._drawn(resolved, replicate, [], None)
        overrides = self.load.overrides(load)
        return self._drawn(resolved, replicate, overrides, self.num_requests(load))

    def _drawn(
        self, resolved: Resolved, replicate: int, overrides: list[str], count: int | None
    ) -> Requests:
        if count is not None:
            overrides = [*overrides, f"workload.num_requests={count}"]
        key = (tuple(overrides), replicate, resolved.max_model_len)
        if key not in self._sample.requests:
            # What resolving fills in of a workload is kept: a static engine's max_tokens.
            workload = resolved.scenario.with_overrides(overrides).workload
            self._sample.requests[key] = build_requests(
                workload,
                base_dir=self.scenario.base_dir,
                max_model_len=resolved.max_model_len,
                seed=self.scenario.seed,
                replicate=replicate,
            )
        return self._sample.requests[key]
