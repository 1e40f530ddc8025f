"""Rates that change with time, and arrivals that follow them.

Arrivals of a unit-rate process at s_1, s_2, ... become arrivals at R^-1(s_i), where R(t) is
the integral of the rate up to t (time change; Cinlar, "Introduction to Stochastic
Processes", 1975).  So the luck of the i-th request does not depend on the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.workload.requests import Floats


@dataclass(frozen=True, eq=False)
class RateCurve:
    """A rate that goes straight from one value to another within each of its pieces.

    Attributes
    ----------
    edge_s : (m + 1,) not decreasing, from 0.
    first, last : (m,) requests/s at the start and before the end of each piece.
    repeats : the curve starts again after its end; else its last rate goes on for ever.
    """

    edge_s: Floats
    first: Floats
    last: Floats
    repeats: bool

    def at_edges(self) -> Floats:
        """(m + 1,) mean number of arrivals before each edge."""
        pieces = np.diff(self.edge_s) * (self.first + self.last) / 2
        return np.append(0.0, np.cumsum(pieces))

    def expected(self, until_s: float) -> float:
        """Mean number of arrivals before `until_s`."""
        at_edges, length_s = self.at_edges(), float(self.edge_s[-1])
        rounds, rest_s = divmod(until_s, length_s) if self.repeats else (0.0, until_s)
        if rest_s >= length_s:
            return float(at_edges[-1] + (rest_s - length_s) * self.last[-1])
        piece = int(np.searchsorted(self.edge_s, rest_s, "right")) - 1
        begun_s = rest_s - self.edge_s[piece]
        slope = self._slopes()[piece]
        inside = self.first[piece] * begun_s + slope * begun_s * begun_s / 2
        return float(rounds * at_edges[-1] + at_edges[piece] + inside)

    def _slopes(self) -> Floats:
        length_s = np.diff(self.edge_s)
        rise = self.last - self.first
        return np.divide(rise, length_s, out=np.zeros(len(rise)), where=length_s > 0)

    def times(self, expected: Floats) -> Floats:
        """When the mean number of arrivals comes to `expected`, (n,) not decreasing."""
        at_edges, length_s = self.at_edges(), float(self.edge_s[-1])
        total = float(at_edges[-1])
        rounds = np.floor(expected / total) if self.repeats else np.zeros(len(expected))
        rest = expected - rounds * total
        piece = np.clip(np.searchsorted(at_edges, rest, "right") - 1, 0, len(self.first) - 1)
        start = self.first[piece]
        wanted = rest - at_edges[piece]
        # The smaller root of slope/2 x^2 + start x = wanted, without cancellation.
        root = np.sqrt(np.maximum(start * start + 2 * self._slopes()[piece] * wanted, 0.0))
        below = start + root
        with np.errstate(over="ignore"):  # next to no rate: they never come
            begun_s = np.divide(2 * wanted, below, out=np.zeros(len(rest)), where=below > 0)
        inside = rounds * length_s + self.edge_s[piece] + begun_s
        if self.repeats:
            return np.asarray(np.maximum.accumulate(inside))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            after = length_s + (rest - total) / self.last[-1]
        return np.asarray(np.maximum.accumulate(np.where(rest < total, inside, after)))


def steps(rate: Floats, step_s: float, *, repeats: bool) -> RateCurve:
    """Rates that hold for `step_s` each."""
    return RateCurve(np.arange(len(rate) + 1.0) * np.float64(step_s), rate, rate, repeats)


def through(points: list[tuple[float, float]]) -> RateCurve:
    """Straight lines through (time_s, rate); two points at one time are a jump."""
    time_s, rate = np.array(points, np.float64).T
    if time_s[0] > 0:  # before the first point its rate holds
        time_s, rate = np.append(0.0, time_s), np.append(rate[0], rate)
    if len(time_s) == 1:
        time_s, rate = np.append(time_s, 1.0), np.append(rate, rate)
    return RateCurve(time_s, rate[:-1], rate[1:], repeats=False)


def episodes(
    calm: float, burst: float, calm_s: float, burst_s: float, random: np.random.Generator,
    *, expected: float,
) -> RateCurve:  # fmt: skip
    """Calm and bursts in turn, each exponentially long with these means.

    Long enough for `expected` arrivals; starts in the state that a moment chosen at random
    would be in.
    """
    in_burst = bool(random.random() < burst_s / (calm_s + burst_s))
    lengths: list[Floats] = []
    rates: list[Floats] = []
    total = 0.0
    while total <= expected:
        mean_s = np.tile([burst_s, calm_s] if in_burst else [calm_s, burst_s], 512)
        rate = np.tile([burst, calm] if in_burst else [calm, burst], 512)
        lengths.append(random.standard_exponential(1024) * mean_s)
        rates.append(rate)
        total += float((lengths[-1] * rate).sum())
    rate = np.concatenate(rates)
    edge_s = np.append(0.0, np.cumsum(np.concatenate(lengths)))
    return RateCurve(edge_s, rate, rate, repeats=False)
