"""Confidence intervals: of means over replicates, of recordings, of differences, of quantiles.

A replicate is one independent run (`simulate(..., replicate=k)`); variants that share
their replicates share their random numbers, so that differences are taken in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its confidence interval, in the unit of the values.

    Attributes
    ----------
    estimate : NaN where a value does not exist.
    low, high : NaN where the values are too few for an interval.
    count : values that it was made from.
    """

    estimate: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """`half_width` as a share of the estimate; infinite where there is no interval."""
        if np.isnan(self.half_width) or self.estimate == 0:
            return float("inf")
        return self.half_width / abs(self.estimate)

    def excludes(self, value: float) -> bool:
        """Whether the interval lies on one side of `value`; of a difference, of 0: significant."""
        return bool(value < self.low or value > self.high)


def mean_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent values, with Student's t interval.

    Parameters
    ----------
    values : (n,) one per replicate.  A NaN among them makes the whole answer NaN.
    confidence : probability that the interval holds the expectation.
    """
    sample = np.asarray(values, np.float64)
    n = len(sample)
    mean = float(sample.mean()) if n else float("nan")
    if n < 2 or not np.isfinite(mean):
        return Interval(mean, float("nan"), float("nan"), n)
    half = _student_t(confidence, n - 1) * float(sample.std(ddof=1)) / np.sqrt(n)
    return Interval(mean, mean - float(half), mean + float(half), n)


def recorded_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """A figure of a recording, with the interval that bootstraps of it give.

    The scatter of the bootstraps stands for that of the figure over other recordings as long
    as this one.  More of them tell it better and make the interval no narrower: only a longer
    recording would.

    Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, section 12.5.

    Parameters
    ----------
    values : (n,) the recording's own first, then one per bootstrap.
    """
    sample = np.asarray(values, np.float64)
    n = len(sample)
    own = float(sample[0]) if n else float("nan")
    if n < 3 or not np.isfinite(sample).all():
        return Interval(own, float("nan"), float("nan"), n)
    half = _student_t(confidence, n - 2) * float(sample[1:].std(ddof=1))
    return Interval(own, own - half, own + half, n)


def paired_difference(
    values: ArrayLike, baseline: ArrayLike, confidence: float = CONFIDENCE
) -> Interval:
    """Mean of ``values - baseline``, taken replicate by replicate.

    Under common random numbers most of what differs between replicates is the same in both
    and drops out, so that the interval is narrower than those of the two means.
    """
    return mean_interval(
        np.asarray(values, np.float64) - np.asarray(baseline, np.float64), confidence
    )


def quantile_interval(sample: ArrayLike, q: float, confidence: float = CONFIDENCE) -> Interval:
    """Quantile of independent values, between two of their order statistics.

    Holds for any continuous distribution: the number of values below the true quantile is
    binomial (n, q).  Requests of one run wait in the same queue and are not independent;
    for them take the quantile of each replicate and `mean_interval`.

    Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1.

    Returns
    -------
    An end is NaN where the values are too few for one on that side.
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(sample, np.float64))
    n = len(ordered)
    if n == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    tail = (1 - confidence) / 2
    at_most = bdtr(np.arange(n + 1, dtype=np.float64), n, q)  # P(at most k values lie below)
    # The k-th smallest is too high as a lower end if fewer than k values lie below.
    below = int(np.searchsorted(at_most, tail, side="right"))
    above = int(np.searchsorted(at_most, 1 - tail, side="left")) + 1
    return Interval(
        float(np.quantile(ordered, q)),
        float(ordered[below - 1]) if below >= 1 else float("nan"),
        float(ordered[above - 1]) if above <= n else float("nan"),
        n,
    )


def bootstrap_interval(
    values: Sequence[float] | NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], float],
    random: np.random.Generator,
    confidence: float = CONFIDENCE,
) -> Interval:
    """A statistic of independent values, with the percentile interval of its bootstrap.

    For statistics that have no t interval, such as the median over replicates.

    Source: B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, chapter 13.
    """
    sample = np.asarray(values, np.float64)
    n = len(sample)
    if n < 2 or np.isnan(sample).any():
        estimate = float(statistic(sample)) if n else float("nan")
        return Interval(estimate, float("nan"), float("nan"), n)
    rows = random.integers(0, n, (RESAMPLES, n))
    found = np.array([statistic(sample[row]) for row in rows])
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(statistic(sample)), float(low), float(high), n)


def _student_t(confidence: float, freedom: int) -> float:
    """Two-sided quantile of Student's t distribution."""
    from scipy.special import stdtrit  # a third of a second that only planning needs

    return float(stdtrit(freedom, (1 + confidence) / 2))
