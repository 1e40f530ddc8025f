"""Weighted quantiles are NumPy's quantiles of the expanded sample, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.metrics.quantiles import (
    SORTABLE,
    describe_ms,
    describe_weighted_ms,
    order_statistics,
    order_statistics_by_bins,
    weighted_quantiles,
)

samples = st.lists(
    st.tuples(st.floats(0, 1e3, allow_nan=False), st.integers(0, 40)), min_size=1, max_size=60
).filter(lambda rows: sum(count for _, count in rows) > 0)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def columns(rows):
    values, counts = zip(*rows, strict=True)
    return np.array(values, np.float64), np.array(counts, np.int64)


@settings(max_examples=300, deadline=None)
@given(samples, probabilities)
def test_equals_numpy_on_the_expanded_sample(rows, q):
    values, counts = columns(rows)
    expected = np.quantile(np.repeat(values, counts), q)
    np.testing.assert_array_equal(weighted_quantiles(values, counts, q), expected)


@settings(max_examples=300, deadline=None)
@given(samples, st.data())
def test_bins_find_the_same_order_statistics(rows, data):
    values, counts = columns(rows)
    expanded = np.sort(np.repeat(values, counts))
    ranks = np.array(data.draw(st.lists(st.integers(0, len(expanded) - 1), min_size=1)))
    for select in (order_statistics, order_statistics_by_bins):
        np.testing.assert_array_equal(select(values, counts, ranks), expanded[ranks])


def test_large_sample_goes_through_the_bins():
    rng = np.random.default_rng(5)
    values, counts = rng.gamma(2.0, 0.01, SORTABLE + 1), rng.integers(0, 4, SORTABLE + 1)
    q = [0.0, 0.5, 0.9, 0.95, 0.99, 1.0]
    np.testing.assert_array_equal(
        weighted_quantiles(values, counts, q), np.quantile(np.repeat(values, counts), q)
    )


@settings(max_examples=100, deadline=None)
@given(samples)
def test_description_equals_that_of_the_expanded_sample(rows):
    values, counts = columns(rows)
    weighted = describe_weighted_ms("itl", values, counts)
    plain = describe_ms("itl", np.repeat(values, counts))
    assert list(weighted) == list(plain)
    np.testing.assert_allclose(list(weighted.values()), list(plain.values()), rtol=1e-9, atol=1e-6)


def test_empty_sample_has_no_quantiles():
    nothing = np.zeros(0), np.zeros(0, np.int64)
    assert np.isnan(weighted_quantiles(*nothing, [0.5])).all()
    assert all(np.isnan(v) for v in describe_weighted_ms("itl", *nothing).values())
    assert all(np.isnan(v) for v in describe_ms("ttft", nothing[0]).values())
