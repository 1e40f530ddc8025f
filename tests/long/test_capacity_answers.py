"""Capacity against brute force on ten scenarios, and how often its intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simulator.planning.capacity import find_capacity
from simulator.planning.capacity.margin import OVERLOAD
from simulator.planning.capacity.system import System
from simulator.scenario import Scenario

pytestmark = pytest.mark.long

GRID = 1.03  # from one load of the brute force to the next
REPLICATES = 4

SCENARIOS = {
    "chat": ("chat-8b-h100", []),
    "chat, few seats": ("chat-8b-h100", ["scheduler.max_num_seqs=32"]),
    "chat, little memory": ("chat-8b-h100", ["kv_cache.num_gpu_blocks=3000"]),
    "chat, small chunks": ("chat-8b-h100", ["scheduler.max_num_batched_tokens=512"]),
    "chat, whole prompts": ("chat-8b-h100", ["scheduler.policy=continuous"]),
    "chat, end-to-end limit": ("chat-8b-h100", ["slo={p90_e2el_ms: 8000}"]),
    "chat, two replicas": ("chat-8b-h100", ["cluster.replicas=2"]),
    "smooth code": ("code-8b-h100", ["workload.arrivals.cv=1"]),
    "linear": ("seed-linear", ["slo.p99_ttft_ms=200"]),
    "static": ("static-vs-continuous", ["slo={p90_e2el_ms: 60000}"]),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_within_one_step_of_brute_force(name):
    source, overrides = SCENARIOS[name]
    scenario = Scenario.from_yaml(source, [*overrides, "workload.num_requests=3000"])
    found = find_capacity(
        scenario, replicates=(REPLICATES, REPLICATES), try_changes=False, model_error=0.0
    )
    answer = found.per_replica.estimate * scenario.cluster.replicas
    system = System(scenario)
    system.settle(answer)

    def meets(load):
        excess = [min(system.margin(load, k).excess, OVERLOAD) for k in range(REPLICATES)]
        return float(np.mean(excess)) <= 0

    grid = answer * GRID ** np.arange(-6.0, 7.0)
    met = [meets(load) for load in grid]
    assert met[0]
    assert not met[-1]
    # The greatest load of the grid that is met, with all below it met too.
    best = grid[met.index(False) - 1]
    assert abs(math.log(best / answer)) <= 1.5 * math.log(GRID)


def test_intervals_hold_the_rate_of_theory():
    # M/D/1 with a mean wait of one service time: W = rho * s / (2 * (1 - rho)) gives rho = 2/3.
    truth, held, runs = 2 / 3 / 0.05, 0, 200
    scenario = Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 13.0},
                "lengths": {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 1},
                "num_requests": 6000,
            },
            "model": "llama-3.1-8b",
            "scheduler": {"max_num_seqs": 1, "async_scheduling": False},
            "kv_cache": {"num_gpu_blocks": 100, "max_model_len": 64},
            "cost_model": {"kind": "linear", "t_mem_s": 0.05, "t_flop_s_per_token": 0.0},
            "slo": {"mean_queue_ms": 50},
        }
    )
    for seed in range(runs):
        found = find_capacity(
            scenario.with_overrides([f"seed={seed}"]), try_changes=False, model_error=0.0
        )
        held += not found.per_replica.excludes(truth)
    assert 0.90 <= held / runs <= 0.98
