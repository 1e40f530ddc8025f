"""Arrival processes against the theory of renewal processes.

Seeds are fixed.  Each statistical check is two-sided at the 0.1 % level: one correct
generator in a thousand seeds would fail it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from simulator.errors import InputError
from simulator.scenario.arrivals import (
    BurstArrivals,
    ClosedLoopArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    ProfileArrivals,
)
from simulator.workload.arrivals import arrival_times
from simulator.workload.streams import Purpose, Streams

LEVEL = 0.001
N = 200_000
SEEDS = (0, 1, 2)


def times(spec, *, seed=0, num_requests=None, duration_s=None):
    random = Streams(seed).generator(Purpose.ARRIVALS)
    return arrival_times(spec, random, num_requests=num_requests, duration_s=duration_s)


def gaps(spec, seed):
    return np.diff(times(spec, seed=seed, num_requests=N), prepend=0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_gaps_are_exponential_with_the_given_rate_and_cv_1(seed):
    rate = 8.0
    sample = gaps(PoissonArrivals(process="poisson", rate=rate), seed)
    assert stats.kstest(sample, stats.expon(scale=1 / rate).cdf).pvalue > LEVEL
    z = stats.norm.ppf(1 - LEVEL / 2)
    # The sum of N gaps is gamma(N): its rate is known to 1/sqrt(N).
    assert abs(sample.mean() * rate - 1) < z / np.sqrt(N)
    # For exponential gaps sqrt(N) (CV - 1) tends to a standard normal.
    assert abs(sample.std() / sample.mean() - 1) < z / np.sqrt(N)
    # No memory from one gap to the next.
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < z / np.sqrt(N)


@pytest.mark.parametrize("seed", SEEDS)
def test_poisson_counts_in_windows_have_variance_equal_to_their_mean(seed):
    window_s, windows, rate = 2.5, 10_000, 8.0
    spec = PoissonArrivals(process="poisson", rate=rate)
    arrivals = times(spec, seed=seed, duration_s=window_s * windows)
    counts = np.bincount((arrivals / window_s).astype(int), minlength=windows)
    dispersion = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    low, high = stats.chi2(windows - 1).ppf([LEVEL / 2, 1 - LEVEL / 2])
    assert low < dispersion < high
    expected = rate * window_s * windows
    assert abs(len(arrivals) - expected) < stats.norm.ppf(1 - LEVEL / 2) * np.sqrt(expected)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0, 5.0])
def test_gamma_gaps_have_the_given_distribution(cv, seed):
    rate = 4.0
    sample = gaps(GammaArrivals(process="gamma", rate=rate, cv=cv), seed)
    law = stats.gamma(1 / cv**2, scale=cv**2 / rate)
    # Kolmogorov-Smirnov over gaps of 1 ns and more: sums of gaps hold no shorter ones.
    ordered = np.sort(sample)
    step = np.arange(N) / N
    shown = ordered > 1e-9
    above, below = step + 1 / N - law.cdf(ordered), law.cdf(ordered) - step
    assert max(above[shown].max(), below[shown].max()) < stats.kstwo.ppf(1 - LEVEL, N)
    z = stats.norm.ppf(1 - LEVEL / 2)
    assert abs(sample.mean() * rate - 1) < z * cv / np.sqrt(N)
    # Delta method: the CV of gamma gaps has asymptotic variance cv^2 (1 + cv^2) / 2 / N.
    assert abs(sample.std() / sample.mean() - cv) < z * cv * np.sqrt((1 + cv**2) / 2 / N)


def test_constant_arrivals_are_multiples_of_the_gap():
    spec = ConstantArrivals(process="constant", rate=10.0)
    assert times(spec, num_requests=4).tolist() == [0, 0.1, 0.2, 0.3]
    assert times(spec, duration_s=0.3).tolist() == [0, 0.1, 0.2]
    assert times(spec, duration_s=0.301).tolist() == [0, 0.1, 0.2, 0.3]


def test_burst_and_closed_loop_are_there_at_once():
    assert times(BurstArrivals(process="burst"), num_requests=3).tolist() == [0, 0, 0]
    closed = ClosedLoopArrivals(process="closed_loop", concurrency=2)
    assert times(closed, num_requests=3).tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="burst arrivals do not end with time"):
        times(BurstArrivals(process="burst"), duration_s=3.0)


@pytest.mark.parametrize(
    "spec",
    [
        PoissonArrivals(process="poisson", rate=8.0),
        GammaArrivals(process="gamma", rate=8.0, cv=20.0),
    ],
)
def test_the_end_only_decides_where_the_same_arrivals_stop(spec):
    long = times(spec, num_requests=50_000)
    assert times(spec, num_requests=1000).tolist() == long[:1000].tolist()
    end = float(long[20_000])
    before_end = long[long < end].tolist()
    assert len(before_end) > 1000
    assert times(spec, duration_s=end).tolist() == before_end
    assert times(spec, num_requests=50_000, duration_s=end).tolist() == before_end


def test_the_rate_only_stretches_the_same_gaps():
    slow, fast = (
        times(PoissonArrivals(process="poisson", rate=rate), num_requests=1000)
        for rate in (1.0, 4.0)
    )
    assert (slow / 4.0).tolist() == fast.tolist()


def test_impossible_sizes_are_refused():
    with pytest.raises(InputError, match=r"would have 1,000,000,000 requests; at most 100,000,000"):
        times(PoissonArrivals(process="poisson", rate=1e6), duration_s=1e3)
    with pytest.raises(InputError, match=r"cv is 1e\+06; allowed"):
        times(GammaArrivals(process="gamma", rate=1.0, cv=1e6), num_requests=3)
    with pytest.raises(InputError, match="too low to reach a second request"):
        times(ProfileArrivals(process="profile", points=[[0, 1e-320]]), num_requests=3)
