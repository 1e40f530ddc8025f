"""A run that is stopped is the run whose horizon is the moment of the stop."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest

from simulator import Scenario, simulate
from simulator.recording import UNFINISHED
from simulator.report.files import to_json

LOADS = {
    "one replica": [],
    "a router that does not look": ["cluster.replicas=2"],
    "a router that looks": ["cluster={replicas: 2, router: least_outstanding}"],
    "all at once": ["workload.arrivals={process: burst}"],
    "closed loop": ["workload.arrivals={process: closed_loop, concurrency: 8}"],
}


def after(times):
    """Says yes the given number of times later."""
    asked = iter(range(times))
    return lambda: next(asked, None) is None


def scenario(name):
    return Scenario.from_yaml("seed-linear", ["workload.num_requests=200", *LOADS[name]])


@pytest.mark.parametrize("name", LOADS)
def test_stopping(name):
    whole = simulate(scenario(name))
    # Without a stretch of arrivals to cut up, pieces last a second or more.
    part = simulate(scenario(name), stop=after(2 if name == "all at once" else 20))
    assert part.interrupted
    horizon_s = part.resolved.scenario.workload.horizon_s
    assert 0 < horizon_s == part.recording.end_s < whole.recording.end_s
    assert part.summary["unfinished"] > 0 or part.summary["completed"] < 200
    again = simulate(part.resolved.scenario)
    assert digest(part.recording) == digest(again.recording)
    assert to_json(part.summary) == to_json(again.summary)


@pytest.mark.parametrize("name", LOADS)
def test_a_run_that_is_only_asked_is_the_same_run(name):
    asked = simulate(scenario(name), stop=lambda: False)
    assert not asked.interrupted
    assert digest(asked.recording) == digest(simulate(scenario(name)).recording)


def test_later_arrivals_are_no_part_of_it():
    part = simulate(scenario("one replica"), stop=after(20))
    late = part.recording.requests.arrival_s >= part.recording.end_s
    assert late.any()
    assert (part.recording.outcome.replica[late] < 0).all()
    in_time = int((part.recording.outcome.status[~late] == UNFINISHED).sum())
    assert part.summary["unfinished"] == in_time
    assert "interrupted at" in part.resolved.notes[-1]
    assert np.nanmax(part.recording.outcome.finished_s) <= part.recording.end_s
