"""Random streams: one per purpose, so that variants of a scenario share their luck.

A request keeps its class and its lengths when the arrival rate changes, when requests
are added behind it, when a predictor is switched on: each of these draws from its own
stream, the i-th request the i-th number.  Comparing variants request by request then
compares the variants and not the dice (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from statistics import NormalDist

import numpy as np

from simulator.workload.requests import Floats


class Purpose(IntEnum):
    """What a stream is for.  The numbers are part of every result: never renumber."""

    ARRIVALS = 0
    PROMPT_LENGTHS = 1
    OUTPUT_LENGTHS = 2
    CLASSES = 3
    PREDICTOR = 4
    BOOTSTRAP = 5
    TURNS = 6
    THINK_TIMES = 7
    THINNING = 8
    COPIES = 9
    JITTER = 10
    EPISODES = 11
    ADAPTERS = 12
    ROUTING = 20
    DECODE_ROUTING = 21


@dataclass(frozen=True)
class Streams:
    """Random generators of one replicate of a scenario."""

    seed: int
    replicate: int = 0

    def generator(self, purpose: Purpose, source: int | None = None) -> np.random.Generator:
        """A fresh generator at the start of a stream.

        `source` tells apart the classes of a workload that have their own arrivals.
        """
        key = (self.replicate, int(purpose)) + (() if source is None else (source,))
        return np.random.Generator(
            np.random.PCG64(np.random.SeedSequence(entropy=self.seed, spawn_key=key))
        )


# Points of the normal distribution function, equally far apart from -REACH to REACH.
REACH, PER_UNIT = 8, 512


@cache
def _normal_table() -> tuple[Floats, Floats]:
    steps = np.arange(-REACH * PER_UNIT, REACH * PER_UNIT + 1)
    values = np.array([NormalDist().cdf(step / PER_UNIT) for step in steps.tolist()])
    return values[:-1], np.diff(values)


def normal_cdf(z: Floats) -> Floats:
    """Standard normal distribution function, to 2e-7, without SciPy at run time."""
    start, rise = _normal_table()
    place = np.clip((z + REACH) * PER_UNIT, 0, len(start))
    step = np.minimum(place.astype(np.int64), len(start) - 1)
    return start[step] + (place - step) * rise[step]
