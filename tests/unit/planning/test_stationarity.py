"""MSER-5 on series whose transient is known."""

from __future__ import annotations

import numpy as np

from simulator.planning.stationarity import mser5


def test_steady_series_keep_everything():
    assert mser5(np.ones(100)) == 0
    assert mser5([3.0, 1.0]) == 0
    assert mser5([]) == 0


def test_a_step_is_cut_where_it_ends():
    # After the cut the variance is 0, before it is not: no other cut is as good.
    assert mser5([9.0] * 20 + [1.0] * 180) == 20
    # Inside a batch: its mean is still off, so the whole batch goes.
    assert mser5([9.0] * 22 + [1.0] * 178) == 25


def test_a_fading_start_is_cut_within_its_length():
    random = np.random.default_rng(0)
    n = np.arange(4000)
    cut = mser5(10 * np.exp(-n / 100) + random.normal(size=4000))
    assert 100 <= cut <= 500  # the start has faded to the noise after some 230 observations


def test_growth_is_never_cut_beyond_the_middle():
    assert mser5(np.arange(1000.0)) <= 500
