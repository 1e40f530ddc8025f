"""MSER-5 on series whose transient is known."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, step

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.planning.stationarity import mser5, warm_up_s
from simulator.report.files import to_json


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


def test_the_warm_up_of_a_run_ends_where_its_first_settled_request_arrives():
    # The first ten take nine seconds, and all others one.
    rows = []
    for k in range(60):
        took_s = 9.0 if k < 10 else 1.0
        end_s = k + took_s
        rows.append(req(float(k), admitted=float(k), first=end_s, finished=end_s))
    assert warm_up_s(recording(rows, [step(0, 100)])) == 10.0
    assert warm_up_s(recording([], [])) == 0.0


def test_an_automatic_warm_up_is_that_warm_up():
    scenario = Scenario.from_yaml("seed-linear", ["workload.num_requests=400", "warmup_s=auto"])
    found = simulate(scenario)
    cut_s = found.summary["warmup_s"]
    assert cut_s == warm_up_s(found.recording)
    assert f"warmup_s: {cut_s:.6g}, by MSER-5 on the end-to-end latencies" in found.resolved.notes
    told = simulate(scenario.with_overrides([f"warmup_s={cut_s!r}"]))
    assert to_json(told.summary) == to_json(found.summary)


@pytest.mark.parametrize("value", ["-1", "automatic", "true", ".inf", "[1]"])
def test_other_warm_ups_are_refused(value):
    with pytest.raises(InputError, match="of at least 0, or auto"):
        Scenario.from_yaml("seed-linear", [f"warmup_s={value}"])
