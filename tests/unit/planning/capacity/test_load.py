"""Turning the load of every kind of workload up and down."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.planning.capacity.load import load_of
from simulator.planning.capacity.system import System
from simulator.scenario import Scenario
from simulator.workload import build_requests

LENGTHS = {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 2}


def made(workload, base_dir="."):
    return Scenario.from_mapping(
        {
            "workload": workload,
            "model": "llama-3.1-8b",
            "cost_model": {"kind": "linear", "t_mem_s": 0.01, "t_flop_s_per_token": 1e-4},
            "slo": {"p99_ttft_ms": 500},
        },
        base_dir,
    )


def requests(scenario):
    return build_requests(scenario.workload, base_dir=scenario.base_dir, max_model_len=100, seed=0)


def measured(scenario):
    arrivals = requests(scenario).arrival_s
    return (len(arrivals) - 1) / (arrivals[-1] - arrivals[0])


@pytest.mark.parametrize(
    "arrivals",
    [
        {"process": "poisson", "rate": 4.0},
        {"process": "constant", "rate": 4.0},
        {"process": "gamma", "rate": 4.0, "cv": 2.0},
        {"process": "weibull", "rate": 4.0, "cv": 2.0},
        {"process": "mmpp", "rate": 4.0, "burst_factor": 3, "burst_share": 0.2, "burst_s": 5},
        {"process": "diurnal", "rate": 4.0, "curve": [1, 3], "period_s": 60},
        {"process": "diurnal", "curve": [2, 6], "period_s": 60},
        {"process": "profile", "points": [[0, 2], [100, 6]]},
    ],
)
def test_rates(arrivals):
    scenario = made({"arrivals": arrivals, "lengths": LENGTHS, "num_requests": 2000})
    load = load_of(scenario, requests(scenario))
    if "rate" in arrivals:
        assert load.base == 4.0
    doubled = scenario.with_overrides(load.overrides(2 * load.base))
    # Twice the rate: the same draws on a clock that runs twice as fast, or through a curve
    # twice as high.
    assert measured(doubled) == pytest.approx(2 * measured(scenario), rel=0.2)
    if load.stretches:
        half = requests(scenario).arrival_s / 2
        assert np.allclose(requests(doubled).arrival_s, half, rtol=1e-14)


def test_classes_with_arrivals_of_their_own():
    classes = [
        {"name": name, "arrivals": {"process": "poisson", "rate": rate}}
        for name, rate in (("a", 1.0), ("b", 3.0))
    ]
    scenario = made({"classes": classes, "lengths": LENGTHS, "num_requests": 100})
    load = load_of(scenario, requests(scenario))
    assert load.base == 4.0
    doubled = scenario.with_overrides(load.overrides(8.0))
    assert [c.arrivals.rate for c in doubled.workload.classes] == [2.0, 6.0]


def test_traces(tmp_path):
    rows = "\n".join(f"{k / 2},10,2" for k in range(101))
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows + "\n")
    scenario = made({"trace": {"path": "t.csv"}}, tmp_path)
    load = load_of(scenario, requests(scenario))
    assert load.base == pytest.approx(2.0)
    assert load.overrides(3.0) == ["workload.trace.rate_scale=1.5"]
    assert load.stretches


def test_closed_loop_is_counted_in_clients():
    arrivals = {"process": "closed_loop", "concurrency": 8}
    scenario = made({"arrivals": arrivals, "lengths": LENGTHS, "num_requests": 100})
    load = load_of(scenario, requests(scenario))
    assert (load.base, load.unit) == (8.0, "clients")
    assert load.overrides(11.0) == ["workload.arrivals.concurrency=11"]


def test_bursts_have_no_rate():
    scenario = made({"arrivals": {"process": "burst"}, "lengths": LENGTHS, "num_requests": 100})
    with pytest.raises(InputError, match="no rate to plan for"):
        load_of(scenario, requests(scenario))


def test_runs_at_another_load_are_those_of_the_scenario_at_that_load():
    from simulator import simulate

    workload = {
        "arrivals": {"process": "poisson", "rate": 4.0},
        "lengths": LENGTHS,
        "num_requests": 8000,
    }
    scenario = made(workload)
    ours = System(scenario).result(9.0).summary
    theirs = simulate(scenario.with_overrides(["workload.arrivals.rate=9"])).summary
    assert ours["p99_ttft_ms"] == pytest.approx(theirs["p99_ttft_ms"], rel=1e-9)
    assert ours["scenario_hash"] == theirs["scenario_hash"]


def test_limits_are_needed():
    workload = {"arrivals": {"process": "poisson", "rate": 4.0}, "lengths": LENGTHS}
    scenario = made({**workload, "num_requests": 10}).with_overrides(["slo={ttft_ms: 500}"])
    with pytest.raises(InputError, match="needs a limit on a percentile"):
        System(scenario)
