"""Capacity of recorded traces."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.planning.capacity import find_capacity
from simulator.planning.capacity.system import System
from simulator.scenario import Scenario

SERVICE_S = 0.05


@pytest.fixture
def replayed(tmp_path):
    """Function from times of arrival to a scenario that replays them to a single server."""

    def make(arrival_s):
        rows = "".join(f"{time_s!r},10,1\n" for time_s in arrival_s.tolist())
        (tmp_path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
        return Scenario.from_mapping(
            {
                "workload": {"trace": {"path": "trace.csv"}},
                "model": "llama-3.1-8b",
                "scheduler": {"max_num_seqs": 1, "async_scheduling": False},
                "kv_cache": {"num_gpu_blocks": 100, "max_model_len": 64},
                "cost_model": {"kind": "linear", "t_mem_s": SERVICE_S, "t_flop_s_per_token": 0.0},
                "slo": {"p99_e2el_ms": 160},
            },
            tmp_path,
        )

    return make


def test_a_load_is_the_recording_on_another_clock(replayed):
    scenario = replayed(np.cumsum(np.random.default_rng(1).exponential(0.1, 200)))
    system = System(scenario)
    assert system.load.stretches
    for replicate in (0, 3):
        built = system.result(2 * system.load.base, replicate).recording.requests.arrival_s
        fast = System(scenario.with_overrides(["workload.trace.rate_scale=2"]))
        read = fast.result(fast.load.base, replicate).recording.requests.arrival_s
        np.testing.assert_allclose(built, read, rtol=1e-12)


def test_pairs_of_requests(replayed):
    # Two requests at once every g seconds, 400 times: the second takes 100 ms from its arrival as
    # long as g is 100 ms or more; faster ones pile up.
    pairs = np.repeat(0.5 * np.arange(400), 2)
    found = find_capacity(replayed(pairs), try_changes=False, model_error=0.0)
    truth = (800 - 1) / (399 * 0.1)
    assert found.per_replica.estimate == pytest.approx(truth, rel=0.03)
    assert found.summary["slo"][0]["met"]


def test_the_interval_is_the_scatter_of_the_bootstraps(replayed):
    arrival_s = np.cumsum(np.random.default_rng(2).exponential(0.1, 3000))
    few, many = (
        find_capacity(
            replayed(arrival_s), try_changes=False, model_error=0.0, replicates=(n, n)
        ).per_replica
        for n in (5, 9)
    )
    assert few.estimate == many.estimate
    assert many.low <= few.estimate <= many.high
    assert many.half_width > few.half_width / 4


def test_a_time_limit_leaves_out_what_is_not_needed(replayed):
    arrival_s = np.cumsum(np.random.default_rng(2).exponential(0.1, 600))
    found = find_capacity(replayed(arrival_s), time_limit_s=0.0, what_if=["traffic"])
    assert found.per_replica.count == 3  # the fewest that have an interval
    assert found.tried == []
    assert found.what_if[0]["verdict"] == "the time limit was reached"
    assert any("time limit" in note for note in found.notes)
