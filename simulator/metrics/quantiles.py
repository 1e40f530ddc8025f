"""Quantiles by linear interpolation, of plain and of weighted samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (50, 90, 95, 99)

SORTABLE = 200_000  # values; more are binned before they are sorted
LOW_BITS = 44  # leaves sign, exponent and 8 bits of mantissa: at most 2^19 bins


def weighted_quantiles(
    values: NDArray[np.float64], counts: NDArray[np.integer[Any]], q: Sequence[float]
) -> NDArray[np.float64]:
    """Quantiles of the sample in which ``values[i]`` occurs ``counts[i]`` times.

    Parameters
    ----------
    values : (n,) float64, >= 0, in any order
    counts : (n,) integers >= 0
    q : probabilities in [0, 1]

    Returns
    -------
    (len(q),) float64, NaN where the sample is empty.  The same numbers as
    ``np.quantile(np.repeat(values, counts), q)``, which interpolates linearly between
    order statistics (Hyndman and Fan 1996, type 7), without the expanded sample.
    """
    total = int(counts.sum())
    if total == 0:
        return np.full(len(q), np.nan)
    position = np.asarray(q, np.float64) * (total - 1)
    low = np.floor(position).astype(np.int64)
    ranks = np.concatenate((low, np.minimum(low + 1, total - 1)))
    select = order_statistics if len(values) <= SORTABLE else order_statistics_by_bins
    a, b = np.split(select(values, counts, ranks), 2)
    t = position - low
    # NumPy's own two-sided interpolation, so that the bits agree with np.quantile.
    return np.asarray(np.where(t >= 0.5, b - (b - a) * (1.0 - t), a + (b - a) * t))


def order_statistics(
    values: NDArray[np.float64], counts: NDArray[np.integer[Any]], ranks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values at 0-based `ranks` of the sample in which ``values[i]`` occurs ``counts[i]`` times."""
    order = np.argsort(values)
    reached = np.cumsum(counts[order])
    return values[order[np.searchsorted(reached, ranks, side="right")]]


def order_statistics_by_bins(
    values: NDArray[np.float64], counts: NDArray[np.integer[Any]], ranks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """`order_statistics` of values >= 0 without sorting them all.

    The leading bits of a float that is not negative order as the float does: they serve as
    bins, and only the bins that hold a rank are sorted.
    """
    bins = np.ascontiguousarray(values).view(np.int64) >> LOW_BITS
    bins -= bins.min()
    reached = np.cumsum(np.bincount(bins, weights=counts))  # exact below 2^53
    wanted = np.searchsorted(reached, ranks, side="right")
    out = np.empty(len(ranks))
    for one in np.unique(wanted):
        inside = bins == one
        here = wanted == one
        before = int(reached[one - 1]) if one else 0
        out[here] = order_statistics(values[inside], counts[inside], ranks[here] - before)
    return out


def weighted_sum(values: NDArray[Any], weights: NDArray[Any]) -> float:
    """Sum of products, with the same bits on any number of cores.

    A scalar product of NumPy's goes to BLAS, which splits a long one over its threads.
    """
    return float(np.multiply(values, weights, dtype=np.float64).sum())


def weighted_mean(values: NDArray[np.float64], counts: NDArray[np.integer[Any]]) -> float:
    """Mean of the sample in which ``values[i]`` occurs ``counts[i]`` times; NaN if empty."""
    total = int(counts.sum())
    return weighted_sum(values, counts) / total if total else float("nan")


def describe_ms(name: str, seconds: NDArray[np.float64]) -> dict[str, float]:
    """Mean, median, standard deviation and percentiles of a sample, in milliseconds.

    Keys are those of ``vllm bench serve --save-result``: ``mean_ttft_ms``,
    ``median_ttft_ms``, ``std_ttft_ms``, ``p99_ttft_ms`` for ``name="ttft"``.  The
    standard deviation is the population's, as there.  All NaN for an empty sample.
    """
    if not len(seconds):
        return _keys(name, np.nan, np.nan, np.full(len(PERCENTILES), np.nan))
    quantiles = np.quantile(seconds, [p / 100 for p in PERCENTILES])
    return _keys(name, float(seconds.mean()), float(seconds.std()), quantiles)


def describe_weighted_ms(
    name: str, seconds: NDArray[np.float64], counts: NDArray[np.integer[Any]]
) -> dict[str, float]:
    """`describe_ms` of the sample in which ``seconds[i]`` occurs ``counts[i]`` times."""
    total = int(counts.sum())
    quantiles = weighted_quantiles(seconds, counts, [p / 100 for p in PERCENTILES])
    if total == 0:
        return _keys(name, np.nan, np.nan, quantiles)
    mean = weighted_mean(seconds, counts)
    deviation = seconds - mean
    deviation *= deviation
    return _keys(name, mean, float(np.sqrt(weighted_mean(deviation, counts))), quantiles)


def _keys(name: str, mean: float, std: float, quantiles: NDArray[np.float64]) -> dict[str, float]:
    out = {
        f"mean_{name}_ms": mean * 1e3,
        f"median_{name}_ms": float(quantiles[PERCENTILES.index(50)]) * 1e3,
        f"std_{name}_ms": std * 1e3,
    }
    for percentile, value in zip(PERCENTILES, quantiles, strict=True):
        out[f"p{percentile}_{name}_ms"] = float(value) * 1e3
    return out
