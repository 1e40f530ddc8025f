"""Confidence intervals against tables and by repeated sampling."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.planning.statistics import (
    bootstrap_interval,
    mean_interval,
    paired_difference,
    quantile_interval,
    recorded_interval,
)


def test_bootstraps_of_a_recording_tell_its_interval_and_do_not_narrow_it():
    # Deviation of 9, 10, 11: 1; Student's t at 97.5 % with 2 degrees of freedom: 4.303.
    found = recorded_interval([12.0, 9.0, 10.0, 11.0])
    assert (found.estimate, found.count) == (12.0, 4)
    assert (found.low, found.high) == pytest.approx((12 - 4.303, 12 + 4.303), abs=1e-3)
    # As many again: only the quantile changes, to that of 5 degrees of freedom.
    more = recorded_interval([12.0, *[9.0, 10.0, 11.0] * 2])
    assert more.half_width == pytest.approx(2.571 * np.sqrt(4 / 5), abs=1e-3)
    assert np.isnan(recorded_interval([12.0, 9.0]).low)


def test_mean_interval_by_hand():
    # Student's t at 97.5 % with 2 degrees of freedom is 4.3027; the deviation of 1, 2, 3 is 1.
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.estimate == 2.0
    assert found.half_width == pytest.approx(4.30265 / 3**0.5, rel=1e-5)
    assert (found.low + found.high) / 2 == pytest.approx(2.0)


def test_too_few_values_have_no_interval():
    found = mean_interval([5.0])
    assert found.estimate == 5.0
    assert np.isnan([found.low, found.high]).all()
    assert found.relative_half_width == float("inf")
    assert not found.excludes(0.0)
    assert np.isnan(mean_interval([]).estimate)
    assert np.isnan(mean_interval([1.0, float("nan")]).estimate)


def test_pairs_remove_what_replicates_share():
    base = np.array([10.0, 200.0, 3000.0])
    found = paired_difference([11.0, 201.1, 3000.9], base)
    assert found.estimate == pytest.approx(1.0)
    assert found.excludes(0.0)
    assert not paired_difference(base, base[::-1]).excludes(0.0)


def test_quantile_interval_of_ten_values():
    # P(Bin(10, 1/2) <= 1) = 0.0107 and P(<= 8) = 0.9893: the second and the ninth value; the
    # textbook interval for a median of ten, of 97.9 %.
    found = quantile_interval(np.arange(10.0), 0.5)
    assert (found.low, found.high) == (1.0, 8.0)
    assert found.estimate == 4.5


def test_quantile_interval_says_where_values_are_missing():
    # All hundred lie below the true p99 with probability 0.99^100 = 0.37: no upper end.
    found = quantile_interval(np.arange(100.0), 0.99)
    assert np.isnan(found.high)
    assert found.low == 96.0  # P(Bin(100, 0.99) <= 96) = 0.0184 and P(<= 97) = 0.0794


@pytest.mark.parametrize("kind", ["mean", "quantile", "bootstrap"])
def test_intervals_cover(kind):
    random = np.random.default_rng(1)
    samples = random.exponential(size=(600, 60))
    if kind == "mean":
        found, truth = [mean_interval(s) for s in samples], 1.0
    elif kind == "quantile":
        found, truth = [quantile_interval(s, 0.5) for s in samples], np.log(2)
    else:
        few = samples[:150]
        found, truth = [bootstrap_interval(s, np.mean, random) for s in few], 1.0
    covered = np.mean([not one.excludes(truth) for one in found])
    assert 0.9 <= covered <= 0.985
