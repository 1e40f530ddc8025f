"""When requests of a statistical workload arrive."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

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


class WeibullArrivals(Section):
    """Independent Weibull gaps: burstier than Poisson for cv > 1, smoother below."""

    process: Literal["weibull"]
    rate: Positive
    """requests per second"""
    cv: Positive
    """coefficient of variation of the gaps; Poisson has 1"""


class MmppArrivals(Section):
    """Burst episodes: a Poisson process whose rate is high in bursts and low between them."""

    process: Literal["mmpp"]
    rate: Positive
    """mean requests per second over all time"""
    burst_factor: Annotated[float, Field(gt=1)]
    """rate in bursts / mean rate"""
    burst_share: Annotated[float, Field(gt=0, lt=1)]
    """share of the time that is in bursts"""
    burst_s: Positive
    """mean length of a burst, exponentially distributed as those of the calm between"""
    cv: Positive = 1.0
    """coefficient of variation of the gaps on a clock that runs with the rate; 1: Poisson"""

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.burst_factor * self.burst_share > 1:
            raise ValueError(
                f"workload.arrivals: bursts of {self.burst_factor:g} times the mean rate for "
                f"{self.burst_share:g} of the time would be more than all requests; burst_factor "
                "x burst_share must be at most 1"
            )
        return self

    def states(self) -> tuple[float, float, float]:
        """Rates in the calm and in bursts, requests/s, and the mean length of a calm, s."""
        share = self.burst_share
        calm = self.rate * (1 - self.burst_factor * share) / (1 - share)
        return calm, self.rate * self.burst_factor, self.burst_s * (1 - share) / share


class DiurnalArrivals(Section):
    """A rate that follows a curve again and again: the hours of a day, a recorded fortnight."""

    process: Literal["diurnal"]
    rate: Positive | None = None
    """mean requests per second, to which the curve is scaled; null: the curve's own values"""
    curve: Annotated[tuple[NonNegative, ...], Field(strict=False, min_length=2)] | None = None
    """rates that hold for equal parts of the period"""
    period_s: Positive = 86400.0
    """length of the curve"""
    file: Annotated[str, Field(min_length=1)] | None = None
    """CSV file with columns t_s, rate_rps, and model where there are several; in place of curve"""
    series: str | None = None
    """which model of the file"""
    cv: Positive = 1.0
    """coefficient of variation of the gaps on a clock that runs with the rate; 1: Poisson"""

    @model_validator(mode="after")
    def _check_curve(self) -> Self:
        if (self.curve is None) == (self.file is None):
            raise ValueError("workload.arrivals: diurnal needs a curve or a file, one of the two")
        if self.curve is not None and sum(self.curve) <= 0:
            raise ValueError("workload.arrivals.curve is 0 throughout; some rate must be above 0")
        return self


class ProfileArrivals(Section):
    """Ramps and spikes: a rate that goes straight from point to point."""

    process: Literal["profile"]
    points: Annotated[
        tuple[Annotated[tuple[NonNegative, NonNegative], Field(strict=False)], ...],
        Field(strict=False, min_length=1),
    ]
    """[time in s, requests per second], ...; two points at one time are a jump; the last rate
    goes on"""
    cv: Positive = 1.0
    """coefficient of variation of the gaps on a clock that runs with the rate; 1: Poisson"""

    @model_validator(mode="after")
    def _check_points(self) -> Self:
        times = [time_s for time_s, _ in self.points]
        if times != sorted(times):
            raise ValueError("workload.arrivals.points: the times must not go down; sort them")
        if self.points[-1][1] <= 0:
            raise ValueError(
                "workload.arrivals.points: the last rate goes on and must be above 0; stop the "
                "arrivals with workload.duration_s"
            )
        return self


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
    PoissonArrivals
    | ConstantArrivals
    | GammaArrivals
    | WeibullArrivals
    | MmppArrivals
    | DiurnalArrivals
    | ProfileArrivals
    | BurstArrivals
    | ClosedLoopArrivals,
    Field(discriminator="process"),
]
