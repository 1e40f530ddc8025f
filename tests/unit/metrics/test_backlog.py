"""The verdict on the backlog for queues whose fate is known."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, step

from simulator.metrics.backlog import backlog, littles_law, peak_concurrency
from simulator.metrics.latency import population


def single_server(arrivals, service):
    """Recording of a first-come-first-served server, by Lindley's recursion."""
    rows, free = [], 0.0
    for arrival, work in zip(arrivals, service, strict=True):
        start = max(arrival, free)
        free = start + work
        rows.append(req(arrival, 1, 1, admitted=start, first=free, finished=free))
    return recording(rows)


def judge(rec):
    return backlog(rec, population(rec))


def mm1(load, n=4000, seed=1):
    rng = np.random.default_rng(seed)
    return single_server(np.cumsum(rng.exponential(1.0, n)), rng.exponential(load, n))


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_queue_below_capacity_is_stable(load):
    assert judge(mm1(load)).state == "STABLE"


@pytest.mark.parametrize("load", [1.15, 1.5, 3.0])
def test_queue_above_capacity_is_overloaded_and_grows_at_the_excess(load):
    found = judge(mm1(load))
    assert found.state == "OVERLOADED"
    # Arrivals at 1/s, service at 1/load.
    assert found.slope_per_s == pytest.approx(1 - 1 / load, abs=found.slope_ci95_per_s * 1.5)


def test_false_alarms_are_rare_near_saturation():
    states = [judge(mm1(0.95, 1500, seed)).state for seed in range(60)]
    assert states.count("OVERLOADED") <= 3  # one-sided 2.5 % of 60, and a little


def test_deterministic_overload():
    assert judge(single_server(np.arange(400.0), np.full(400, 1.1))).state == "OVERLOADED"


def test_deterministic_underload():
    assert judge(single_server(np.arange(400.0), np.full(400, 0.9))).state == "STABLE"


def test_burst_at_once_is_backlogged():
    assert judge(single_server(np.zeros(100), np.full(100, 1.0))).state == "BACKLOGGED"


def test_burst_that_everybody_can_join_is_stable():
    rows = [req(0.0, 1, 1, admitted=0.0, first=1.0, finished=1.0) for _ in range(5)]
    assert judge(recording(rows)).state == "STABLE"


def test_big_burst_that_drains_slowly_is_backlogged():
    # 500 requests at 0, then one a second with 0.5 s of work each: the pile lasts to the end.
    arrivals = np.concatenate((np.zeros(500), np.arange(1.0, 401.0)))
    assert judge(single_server(arrivals, np.full(900, 0.6))).state == "BACKLOGGED"


def test_slowly_rising_load_is_not_overload():
    # The rate rises from 1 to 5 per second over 1000 s; nobody ever waits, each stays 2 s.
    arrivals = np.sort(np.sqrt(np.random.default_rng(3).uniform(0.04, 1, 3000)) * 1000)
    rows = [req(t, 1, 2, admitted=t, first=t + 1, finished=t + 2) for t in arrivals]
    assert judge(recording(rows)).state == "STABLE"


def test_rejected_requests_are_no_backlog():
    rows = [req(float(t), reject="queue_full") for t in range(100)]
    assert judge(recording(rows, end_s=100.0)).state == "STABLE"


def test_peak_concurrency_lets_a_finish_go_before_an_arrival():
    rows = [
        req(0.0, admitted=0.0, first=1.0, finished=1.0),
        req(1.0, admitted=1.0, first=2.0, finished=2.0),
        req(1.5, admitted=1.5, first=2.0, finished=2.0),
    ]
    rec = recording(rows)
    assert peak_concurrency(rec, population(rec)) == 2


def test_littles_law_agrees_on_seats():
    rows = [
        req(0.0, admitted=0.0, first=1.0, finished=3.0, output=3),
        req(0.0, admitted=1.0, first=2.0, finished=2.0),
        req(3.0, admitted=3.0, first=4.0, output=9, generated=1),  # unfinished at 5
    ]
    steps = [step(0, 1, running=1), step(1, 2, running=2), step(2, 3, running=1),
             step(3, 4, running=1), step(4, 5, running=1)]  # fmt: skip
    law = littles_law(recording(rows, steps, end_s=5.0))
    assert law.mean_running == pytest.approx(6 / 5)
    assert law.mean_residence_s == pytest.approx((3 + 1 + 2) / 3)
    assert law.relative_gap == pytest.approx(0.0, abs=1e-12)
