"""The greatest load, or the least number of replicas, that meets the limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.errors import InputError
from simulator.planning.capacity.margin import OVERLOAD
from simulator.planning.statistics import Interval

if TYPE_CHECKING:
    from simulator.planning.capacity.system import System

RESOLUTION = 0.006  # of a load, relative; replicates lie further apart
RECORDINGS = 9  # a recording and its bootstraps: their scatter, which more would not lessen
SPREAD = 1.03  # first guess at how far replicates lie apart
WIDEN = 1.5
WORTHWHILE = 2.0  # times as long, to begin again
REACH = 1e6  # how many times the guess, and what part of it, is still looked at

Excess = Callable[[float], float]


def greatest(excess: Excess, guess: float, spread: float = WIDEN) -> float:
    """Greatest load seen with an `excess` of at most 0, where one 0.6 % higher is above it.

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
    seen = {math.log(low): f_low, math.log(high): f_high}

    def known(x: float) -> float:
        if x not in seen:
            seen[x] = excess(math.exp(x))
        return seen[x] or -1e-12

    brentq(known, math.log(low), math.log(high), xtol=RESOLUTION, rtol=1e-10)
    return math.exp(max(x for x, value in seen.items() if value <= 0))


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
    system: System,
    guess: float,
    *,
    precision: float,
    replicates: tuple[int, int],
    late: Callable[[], bool] = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Interval, list[float]]:
    """The greatest load that meets the limits, over replicates.

    Each replicate has a root of its own, since its requests are its own.  Independent draws:
    their mean is the answer and Student's t gives its interval.  A recording: its own root is
    the answer, and those of its bootstraps give the interval.  Replicates are added until half
    the interval is at most `precision` of the answer.

    A run starts empty, and a percentile of a short one is mostly too low, so that the roots
    are too high, and the more so the more they scatter (in M/D/1 by 4 % where they scatter by
    13 %), however many there are.  So where the first replicates do not suffice, all begins
    again with runs so long that they would, if the workload may be longer.

    Parameters
    ----------
    guess : where the first replicate's search starts.
    precision : relative.
    replicates : at least, and at most, how many.
    late : whether to leave it at the replicates that there are, once an interval can be given.
    say : called with the answer so far.

    Returns
    -------
    The interval, and the root of each replicate.
    """
    fewest, most = replicates
    if system.recorded:
        most = min(most, RECORDINGS)
    roots: list[float] = []
    found = system.interval(roots)
    while len(roots) < most:
        spread = SPREAD if roots else WIDEN
        roots.append(greatest_load(system, len(roots), guess, spread))
        if not math.isfinite(roots[-1]) or not any(roots):
            return Interval(roots[-1], math.nan, math.nan, len(roots)), roots
        found = system.interval(roots)
        guess = found.estimate
        if len(roots) >= fewest and found.relative_half_width <= precision:
            break
        told = not math.isnan(found.half_width)
        say(
            f"the greatest load: {guess:.3g} {system.load.unit}"
            + (f" ± {found.half_width:.2g}" if told else "")
            + f" after {len(roots)} replicates"
        )
        if told and late():
            break
        # Their variance goes as one by the length.
        factor = (found.relative_half_width / precision) ** 2
        if len(roots) == fewest and factor >= WORTHWHILE and system.lengthen(factor):
            system.settle(guess)
            say(f"the greatest load: {guess:.3g} {system.load.unit}; runs are too short, again")
            roots = []
    # Student's t of few roots that lie far apart would reach below any load.
    return replace(found, low=max(found.low, 0.0)), roots
