"""The same arrivals through several variants of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.planning.reasons import reasons
from simulator.scenario import Scenario
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
    results : by name of the variant; the first is what the others are compared with.
    overrides : what each variant sets.
    """

    results: dict[str, Result]
    overrides: dict[str, list[str]]

    @property
    def baseline(self) -> str:
        """Name of the variant that the relative figures refer to."""
        return next(iter(self.results))

    @cached_property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """Summary of each variant."""
        return {name: result.summary for name, result in self.results.items()}

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
            "variants": {
                name: {"overrides": self.overrides[name], "summary": summary}
                for name, summary in self.summaries.items()
            },
        }

    def plot(self, window: Window | None = None) -> Figure:
        """Occupancy and queue of each variant in the same stretch of time; see
        `simulator.report.plots.plot_comparison`."""
        from simulator.report.plots import plot_comparison

        return plot_comparison(self.results, window)


def compare(
    scenario: Scenario,
    variants: Mapping[str, Sequence[str]],
    *,
    seed: int | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Comparison:
    """Simulate each variant with the same random numbers.

    Parameters
    ----------
    scenario : what the variants have in common.
    variants : name -> overrides such as ``["scheduler.policy=static"]``.
    seed : takes the place of the scenario's seed in all of them.
    progress : gives the progress callback of a variant's run, by its name.

    Raises
    ------
    InputError : for an override that does not fit, before anything is simulated.
    """
    changed = {name: scenario.with_overrides(list(sets)) for name, sets in variants.items()}
    results = {
        name: simulate(one, seed=seed, progress=progress(name) if progress else None)
        for name, one in changed.items()
    }
    return Comparison(results, {name: list(sets) for name, sets in variants.items()})


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
