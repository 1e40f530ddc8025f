"""Bars of what latency went to, over the requests that they are about."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import Scenario, simulate
from simulator.metrics.attribution import PARTS
from simulator.report.plots.attribution import plot_attribution, slowest


def test_the_slowest_are_those_with_the_largest_sums():
    parts = np.array([[1.0, 1.0], [0.0, 5.0], [np.nan, np.nan], [3.0, 0.0], [0.5, 0.5]])
    assert slowest(parts, 0.5).tolist() == [[3, 0], [0, 5]]
    assert slowest(parts, 0.01).tolist() == [[0, 5]]  # at least one
    assert len(slowest(parts, 1.0)) == 4  # who did not finish is left out


def test_bars_add_up_to_the_mean_latencies():
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    for axes, key in zip(plot_attribution(result).axes, ("ttft", "e2el"), strict=True):
        assert len(axes.patches) == 3 * len(PARTS)
        top = max(bar.get_y() for bar in axes.patches)  # all requests
        width = sum(bar.get_width() for bar in axes.patches if bar.get_y() == top)
        assert width * 1e3 == pytest.approx(result.summary[f"mean_{key}_ms"])
