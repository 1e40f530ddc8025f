"""When requests of a statistical workload arrive."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.scenario.base import Count, NonNegative, Positive, Section


class PoissonArrivals(Section):
    """Independent exponential gaps (CV 1)."""

    process: Literal["poisson"]
    rate: Positive
    """requests per second"""


class ConstantArrivals(Section):
    """One request every 1/rate seconds."""

    process: Literal["constant"]
    rate: Positive
    """requests per second"""


class GammaArrivals(Section):
    """Independent gamma gaps: burstier than Poisson for cv > 1, smoother below."""

    process: Literal["gamma"]
    rate: Positive
    """requests per second"""
    cv: Positive
    """coefficient of variation of the gaps; Poisson has 1"""


class BurstArrivals(Section):
    """All requests at t = 0."""

    process: Literal["burst"]


class ClosedLoopArrivals(Section):
    """A fixed number of clients; each sends its next request when its last one ended."""

    process: Literal["closed_loop"]
    concurrency: Count
    """number of clients"""
    think_time_s: NonNegative = 0.0
    """from the end of a client's request (or session) to its next"""
    ramp_s: NonNegative = 0.0
    """the clients start one by one over so many seconds"""


ArrivalsSpec = Annotated[
    PoissonArrivals | ConstantArrivals | GammaArrivals | BurstArrivals | ClosedLoopArrivals,
    Field(discriminator="process"),
]
