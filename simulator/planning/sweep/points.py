"""Points of a sweep: every combination of values, or samples of ranges."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.planning.variants import split_outside
from simulator.scenario.overrides import Override, key_path, parse_override

Sampling = Literal["latin", "random"]
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(:log)?")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two ends, both included; whole numbers if both ends are.

    `log` spreads them evenly over orders of magnitude.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(f"the range {self} is empty; write lower..higher, such as 8..256")
        if self.log and self.low <= 0:
            raise InputError(f"the range {self} has no logarithm; start it above 0")

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{':log' if self.log else ''}"

    def at(self, share: float) -> float:
        """The number that `share`, in [0, 1), of the range lies below."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        # Each whole number has an interval of length one of its own.
        low, high = (self.low - 0.5, self.high + 0.5) if whole else (self.low, self.high)
        value: float
        if self.log:
            value = low * (high / low) ** share if low > 0 else high**share
        else:
            value = low + (high - low) * share
        return min(max(round(value), self.low), self.high) if whole else value


Values = Sequence[Any] | Range
Axes = Mapping[str, Values]


@dataclass(frozen=True, slots=True)
class Point:
    """One combination.

    Attributes
    ----------
    number : from 0, in the order of the grid or of the samples.
    values : what each swept key is set to.
    """

    number: int
    values: dict[str, Any]

    @property
    def overrides(self) -> list[Override]:
        """What makes the scenario this point's."""
        return [Override(key_path(key), value) for key, value in self.values.items()]

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def parse_axes(settings: Iterable[str]) -> tuple[list[Override], dict[str, Values]]:
    """Settings of all points, and the axes, from ``key=a``, ``key=a,b,c`` and ``key=lo..hi``.

    Commas in brackets, braces and quotes belong to a value; ``lo..hi:log`` is spread over
    orders of magnitude.
    """
    common: list[Override] = []
    axes: dict[str, Values] = {}
    for text in settings:
        key, _, rest = text.partition("=")
        key = key.strip()
        found = _RANGE.fullmatch(rest.strip())
        if found:
            axes[key] = Range(_number(found[1]), _number(found[2]), bool(found[3]))
            continue
        pieces = [parse_override(f"{key}={piece}") for piece in split_outside(rest)]
        if len(pieces) == 1:
            common.append(parse_override(text))
        else:
            axes[key] = [piece.value for piece in pieces]
    return common, axes


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def grid(axes: Axes) -> list[Point]:
    """Every combination; the last key changes fastest.

    Raises
    ------
    InputError : for a range, which has no end of values.
    """
    for key, values in axes.items():
        if isinstance(values, Range):
            raise InputError(
                f"--set {key}={values}: a grid needs values, such as {key}={values.low:g},"
                f"{values.high:g}; or give --sample N to draw points from the range"
            )
    lists = [values for values in axes.values() if not isinstance(values, Range)]
    return _numbered(axes, itertools.product(*lists))


def sample(axes: Axes, count: int, sampling: Sampling, seed: int) -> list[Point]:
    """`count` points drawn from ranges and lists of values.

    Latin: each axis is cut into `count` equal pieces and every piece is hit once, so that
    few points cover each axis evenly (McKay, Beckman and Conover 1979).  Random: each
    point on its own.
    """
    shares = _shares(len(axes), count, sampling, seed)
    drawn = ([_at(v, share) for v, share in zip(axes.values(), row, strict=True)] for row in shares)
    return _numbered(axes, drawn)


def _shares(axes: int, count: int, sampling: Sampling, seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    if sampling == "random":
        return random.random((count, axes))
    from scipy.stats.qmc import LatinHypercube

    shares: NDArray[np.float64] = LatinHypercube(axes, rng=random).random(count)
    return shares


def _at(values: Values, share: float) -> Any:
    if isinstance(values, Range):
        return values.at(float(share))
    return values[int(share * len(values))]


def _numbered(axes: Axes, combinations: Iterable[Iterable[Any]]) -> list[Point]:
    """Points without repetitions, which whole numbers and lists give when sampled."""
    seen: Iterator[tuple[Any, ...]] = map(tuple, combinations)
    distinct = {repr(values): values for values in seen}
    return [
        Point(number, dict(zip(axes, values, strict=True)))
        for number, values in enumerate(distinct.values())
    ]
