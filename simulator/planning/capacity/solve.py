"""The greatest load, or the least number of replicas, that meets the limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulator.errors import InputError
from simulator.planning.capacity.margin import OVERLOAD
from simulator.planning.statistics import Interval, mean_interval

if TYPE_CHECKING:
    from simulator.planning.capacity.system import System

RESOLUTION = 0.01  # of a load, relative; replicates lie further apart
SPREAD = 1.05  # first guess at how far replicates lie apart
WIDEN = 1.5
REACH = 1e6  # how many times the guess, and what part of it, is still looked at

Excess = Callable[[float], float]


def greatest(excess: Excess, guess: float, spread: float = WIDEN) -> float:
    """Load at which `excess` comes to 0 from below, within one percent.

    Brackets the root from `guess` outwards, ever faster, and then closes in (Brent's
    method in the logarithm of the load).

    Returns
    -------
    0 where the smallest loads miss the limits too, infinite where no load misses them.
    """
    from scipy.optimize import brentq

    low = high = guess
    f_low = f_high = excess(guess)
    while not f_low <= 0 < f_high:
        if high > guess * REACH or low < guess / REACH:
            return 0.0 if f_low > 0 else math.inf
        if f_high <= 0:
            low, f_low = high, f_high
            high *= spread
            f_high = excess(high)
        else:
            high, f_high = low, f_low
            low /= spread
            f_low = excess(low)
        spread = min(spread * spread, 4.0)
    root = brentq(
        lambda x: excess(math.exp(x)) or -1e-12,
        math.log(low),
        math.log(high),
        xtol=RESOLUTION,
        rtol=1e-10,
    )
    return math.exp(float(root))


def greatest_whole(excess: Excess, guess: int) -> int:
    """Largest whole number with an `excess` of at most 0; 0 for none."""
    step, low = 1, guess
    if excess(guess) <= 0:
        while excess(low + step) <= 0:
            low, step = low + step, 2 * step
            if step > REACH * max(guess, 1):
                raise InputError("capacity: no number of clients misses the limits")
        high = low + step
    else:
        high = low
        while low > 0 and (low == high or excess(low) > 0):
            high, low, step = low, max(0, low - step), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return low


def greatest_load(system: System, replicate: int, guess: float, spread: float = WIDEN) -> float:
    """The greatest load of one replicate that meets the limits."""

    def excess(load: float) -> float:
        # How far beyond a run with a growing backlog is, is a matter of its length.
        return min(system.margin(load, replicate).excess, OVERLOAD)

    if system.load.in_whole_numbers:
        return float(greatest_whole(excess, max(1, round(guess))))
    return greatest(excess, guess, spread)


def sustained_load(
    system: System, guess: float, *, precision: float, replicates: tuple[int, int]
) -> tuple[Interval, list[float]]:
    """The greatest load that meets the limits, over replicates.

    Each replicate has a root of its own, since its requests are its own; the roots are
    independent, their mean is the answer and Student's t gives its interval.  Replicates
    are added until half the interval is at most `precision` of the answer.

    Parameters
    ----------
    guess : where the first replicate's search starts.
    precision : relative.
    replicates : at least, and at most, how many.

    Returns
    -------
    The interval, and the root of each replicate.
    """
    fewest, most = replicates
    roots: list[float] = []
    found = mean_interval(roots)
    while len(roots) < most:
        spread = SPREAD if roots else WIDEN
        roots.append(greatest_load(system, len(roots), guess, spread))
        if not math.isfinite(roots[-1]) or roots[-1] == 0:
            return Interval(roots[-1], math.nan, math.nan, len(roots)), roots
        found = mean_interval(roots)
        guess = found.estimate
        if len(roots) >= fewest and found.relative_half_width <= precision:
            break
    return found, roots
