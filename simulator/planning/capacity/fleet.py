"""The least number of replicas that carries a load within the limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.errors import InputError
from simulator.planning.capacity.margin import OVERLOAD
from simulator.planning.capacity.system import System
from simulator.planning.statistics import Interval
from simulator.scenario.pools import copies

MOST_REPLICAS = 10_000
FAR = 10  # times as many as that are refused without a run


def least(meets: Callable[[int], bool], guess: int) -> int:
    """Smallest whole number from 1 on that meets what all larger ones meet too.

    Raises
    ------
    InputError : when none up to 10,000 does.
    """
    step, high = 1, min(guess, MOST_REPLICAS)
    while guess > FAR * MOST_REPLICAS or not meets(high):
        if high >= MOST_REPLICAS:
            raise InputError(
                f"capacity: not even {MOST_REPLICAS:,} replicas carry this load within the limits"
            )
        low, high, step = high, min(high + step, MOST_REPLICAS), 2 * step
    if step == 1:  # the guess was enough
        low, step = high, 1
        while low > 0 and (low == high or meets(low)):
            high, low, step = low, max(low - step, 0), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


class Fleets:
    """One kind of replica in any number, under one load.

    Parameters
    ----------
    system : one of them.
    load : of all replicas together.
    replicates : at least, and at most, how many runs a number of replicas is judged by; more
        are made as long as the limits lie within their interval.
    """

    def __init__(self, system: System, load: float, replicates: tuple[int, int]):
        self.load = load
        self._system, self._replicates = system, replicates
        self._fleets: dict[int, System] = {}
        self._excess: dict[int, Interval] = {}
        self._found: dict[int, list[float]] = {}

    def of(self, replicas: int) -> System:
        """The fleet of so many replicas."""
        if replicas not in self._fleets:
            self._fleets[replicas] = self._system.changed(copies(self._system.scenario, replicas))
        return self._fleets[replicas]

    def excess(self, replicas: int) -> Interval:
        """log(value / limit) of the worst objective, over replicates."""
        if replicas not in self._excess:
            fewest, most = self._replicates
            found: list[float] = []
            while len(found) < most:
                margin = self.of(replicas).margin(self.load, len(found))
                found.append(min(margin.excess, OVERLOAD))
                interval = self._system.interval(found)
                if len(found) >= fewest and interval.excludes(0.0):
                    break
            self._excess[replicas], self._found[replicas] = self._system.interval(found), found
        return self._excess[replicas]

    def typical(self, replicas: int) -> int:
        """The replicate nearest to what was judged by, of those that come off no worse."""
        judged = self.excess(replicas).estimate
        found = enumerate(self._found[replicas])
        return max((excess, k) for k, excess in found if excess <= judged + 1e-12)[1]

    def least(self, guess: int) -> Interval:
        """The least number that meets the limits, and which numbers could be it.

        The interval goes from the least number whose runs do not clearly miss the limits
        to the least whose runs clearly meet them, at 95 % confidence each way.
        """
        found = least(lambda n: self.excess(n).estimate <= 0, guess)
        low = least(lambda n: not self.excess(n).low > 0, found)
        high = least(lambda n: not self.excess(n).high > 0, found)
        return Interval(found, low, high, self.excess(found).count)


def replicas_for(load: float, load_of_one: float) -> int:
    """So many replicas would carry a load if they shared it evenly; where to start looking."""
    return max(1, int(np.ceil(load / load_of_one)))
