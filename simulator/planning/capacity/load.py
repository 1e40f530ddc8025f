"""How hard a workload presses, as one number that can be turned up and down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError

if TYPE_CHECKING:
    from simulator.scenario import Scenario
    from simulator.workload.requests import Requests

# Processes whose times of arrival are those at rate 1, divided by the rate.
STRETCHED = ("poisson", "constant", "gamma", "weibull")


@dataclass(frozen=True)
class Load:
    """The load of a scenario and the keys that set it.

    Attributes
    ----------
    scenario : the scenario whose load is `base`.
    base : requests per second of all replicas, or clients of a closed loop.
    unit : ``"req/s"`` or ``"clients"``.
    """

    scenario: Scenario
    base: float
    unit: str

    @property
    def in_whole_numbers(self) -> bool:
        """Whether only whole numbers of it make sense."""
        return self.unit == "clients"

    @property
    def stretches(self) -> bool:
        """Whether another load is the same arrivals on a slower or faster clock, exactly."""
        workload = self.scenario.workload
        if self.unit == "clients" or workload.duration_s is not None:
            return False
        specs = [spec for _, spec in _processes(self.scenario)]
        # A recording with its own times is replayed faster or slower.
        return all(spec.process in STRETCHED for spec in specs)

    def overrides(self, value: float) -> list[str]:
        """What to set in the scenario so that its load is `value`."""
        if self.unit == "clients":
            return [f"workload.arrivals.concurrency={round(value)}"]
        factor = value / self.base
        specs = list(_processes(self.scenario))
        if not specs:
            trace = self.scenario.workload.trace
            assert trace is not None
            return [f"workload.trace.rate_scale={trace.rate_scale * factor!r}"]
        return [text for key, spec in specs for text in _scaled(key, spec, factor)]


def load_of(scenario: Scenario, requests: Requests) -> Load:
    """The load of a scenario, by its rates or, where it names none, by its requests.

    Parameters
    ----------
    requests : of the scenario as it stands.

    Raises
    ------
    InputError : for arrivals all at once, which have no rate.
    """
    specs = [spec for _, spec in _processes(scenario)]
    if any(spec.process == "burst" for spec in specs):
        raise InputError(
            "workload.arrivals: all requests come at once, so that there is no rate to plan for; "
            "give a process with a rate, such as poisson, or closed_loop"
        )
    if specs and specs[0].process == "closed_loop":
        return Load(scenario, float(specs[0].concurrency), "clients")
    rates: list[Any] = [getattr(spec, "rate", None) for spec in specs]
    if rates and scenario.workload.sessions is None and None not in rates:
        return Load(scenario, float(sum(rates)), "req/s")
    arrivals = requests.arrival_s
    span_s = float(arrivals[-1] - arrivals[0])
    if span_s <= 0:
        raise InputError(
            "workload: all requests arrive at the same time, so that there is no rate to plan for"
        )
    return Load(scenario, (len(requests) - 1) / span_s, "req/s")


def _processes(scenario: Scenario) -> Iterator[tuple[str, Any]]:
    """Key and section of every arrival process; none for a trace with its own times."""
    workload = scenario.workload
    if workload.arrivals is not None:
        yield "workload.arrivals", workload.arrivals
    for index, spec in enumerate(workload.classes):
        if spec.arrivals is not None:
            yield f"workload.classes.{index}.arrivals", spec.arrivals


def _scaled(key: str, spec: Any, factor: float) -> list[str]:
    if spec.process == "profile":
        points = [[time_s, rate * factor] for time_s, rate in spec.points]
        return [f"{key}.points={points!r}"]
    if getattr(spec, "rate", None) is not None:
        return [f"{key}.rate={spec.rate * factor!r}"]
    if spec.curve is not None:
        return [f"{key}.curve={[rate * factor for rate in spec.curve]!r}"]
    raise InputError(
        f"{key}: the rates of its file cannot be turned up and down; give {key}.rate, the mean "
        "to which they are scaled"
    )
