"""The same arrivals through several variants of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.metrics.slo import refuse_unmeasurable
from simulator.planning.executors import local
from simulator.planning.reasons import reasons
from simulator.planning.replicated import averaged
from simulator.planning.statistics import Interval, paired_difference
from simulator.planning.sweep.plan import Run
from simulator.planning.sweep.work import Simulations
from simulator.scenario import Scenario
from simulator.scenario.overrides import Override, parse_override
from simulator.scenario.step_options import entry_of
from simulator.simulation import Progress, Result, simulate
from simulator.workload.requests import Requests

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.report.plots.series import Window


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs of the variants.

    Attributes
    ----------
    results : first replicate of each variant, by its name; the first variant is what the
        others are compared with.
    overrides : what each variant sets.
    runs : summaries of all replicates of each variant.
    """

    results: dict[str, Result]
    overrides: dict[str, list[str]]
    runs: dict[str, list[dict[str, Any]]]

    @property
    def baseline(self) -> str:
        """Name of the variant that the relative figures refer to."""
        return next(iter(self.results))

    @cached_property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """Summary of each variant, averaged over its replicates."""
        return {name: averaged(runs) for name, runs in self.runs.items()}

    @property
    def replicates(self) -> int:
        """Runs of each variant."""
        return len(self.runs[self.baseline])

    def difference(self, name: str, key: str) -> Interval:
        """What a variant's figure is more than the baseline's, with its confidence interval.

        Taken replicate by replicate, since both had the same random numbers.
        """
        values, base = ([run[key] for run in self.runs[n]] for n in (name, self.baseline))
        return paired_difference(_numbers(values), _numbers(base))

    @cached_property
    def same_requests(self) -> bool:
        """Whether all variants were sent the same requests."""
        first, *others = (result.recording.requests for result in self.results.values())
        return all(_same(first, other) for other in others)

    @cached_property
    def differences(self) -> dict[str, list[Any]]:
        """Keys of the resolved scenario in which variants differ: one value per variant."""
        flat = [_flatten(r.resolved.scenario.to_mapping()) for r in self.results.values()]
        keys = dict.fromkeys(key for one in flat for key in one)
        found = {key: [one.get(key) for one in flat] for key in keys}
        return {
            key: values
            for key, values in found.items()
            if any(value != values[0] for value in values[1:])
        }

    @cached_property
    def reasons(self) -> list[str]:
        """Which variant wins and why, from measured figures; one sentence each."""
        return reasons(self.summaries, self.same_requests)

    def to_mapping(self) -> dict[str, Any]:
        """What compare.json holds."""
        return {
            "baseline": self.baseline,
            "same_requests": self.same_requests,
            "differences": self.differences,
            "reasons": self.reasons,
            "replicates": self.replicates,
            "variants": {name: self._variant(name) for name in self.results},
        }

    def _variant(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {"overrides": self.overrides[name], "summary": self.summaries[name]}
        if self.replicates == 1:
            return found
        found["replicates"] = self.runs[name]
        if name != self.baseline:
            found["differences"] = {
                key: _interval(self.difference(name, key))
                for key, value in self.summaries[name].items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
        return found

    def plot(self, window: Window | None = None) -> Figure:
        """Occupancy and queue of each variant in the same stretch of time; see
        `simulator.report.plots.plot_comparison`."""
        from simulator.report.plots import plot_comparison

        return plot_comparison(self.results, window)


def compare(
    scenario: Scenario,
    variants: Mapping[str, Sequence[str | Override]],
    *,
    seed: int | None = None,
    replicates: int = 1,
    jobs: int = 1,
    progress: Callable[[str, str], Progress] | None = None,
) -> Comparison:
    """Simulate each variant with the same random numbers.

    Parameters
    ----------
    scenario : what the variants have in common.
    variants : name -> overrides such as ``["scheduler.policy=static"]``.
    seed : takes the place of the scenario's seed in all of them.
    replicates : runs of each variant with other random numbers.
    jobs : processes for the replicates beyond the first.
    progress : gives a progress callback, by a title and what is counted.

    Raises
    ------
    InputError : for an override that does not fit, before anything is simulated.
    """
    if seed is not None:
        scenario = scenario.with_overrides([Override(("seed",), seed, "seed")])
    overrides = {name: [parse_override(one) for one in sets] for name, sets in variants.items()}
    changed = {name: scenario.with_overrides(sets) for name, sets in overrides.items()}
    for one in changed.values():
        refuse_unmeasurable(one)
    results = {
        name: simulate(one, progress=progress(name, "requests") if progress else None)
        for name, one in changed.items()
    }
    runs = {name: [result.summary] for name, result in results.items()}
    if replicates > 1:
        policies = frozenset(entry_of(one) for one in changed.values())
        work = Simulations(scenario, policies, files=frozenset())
        items = [
            Run(number, replicate, tuple(sets), "")
            for number, sets in enumerate(overrides.values())
            for replicate in range(1, replicates)
        ]
        show = progress("replicates", "runs") if progress else None
        for item, summary in zip(items, _replicates(work, items, jobs, show), strict=True):
            runs[list(overrides)[item.point]].append(summary)
    texts = {name: [one.text for one in sets] for name, sets in overrides.items()}
    return Comparison(results, texts, runs)


def _replicates(
    work: Simulations, items: list[Run], jobs: int, show: Progress | None
) -> list[dict[str, Any]]:
    """Summaries of further runs, in the order of the items."""
    found: dict[int, dict[str, Any]] = {}
    for done in local(jobs).map(work, items):
        if done.error is not None:
            raise InputError(done.error)
        found[done.index] = done.value["summary"]
        if show is not None:
            show(len(found), len(items))
    return [found[index] for index in range(len(items))]


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _interval(found: Interval) -> dict[str, Any]:
    return {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "significant": found.excludes(0.0),
    }


def _same(a: Requests, b: Requests) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("arrival_s", "prompt_tokens", "output_tokens")
    )


def _flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            out |= _flatten(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    out.pop("name", None)
    return out
