"""Capacity against brute force on ten scenarios, and against theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from simulator.planning.capacity import find_capacity
from simulator.planning.capacity.margin import OVERLOAD
from simulator.planning.capacity.system import System
from simulator.scenario import Scenario

pytestmark = pytest.mark.long

GRID = 1.03  # from one load of the brute force to the next
STEPS = 4  # of the grid, on either side of the answer
REPLICATES = 4
SERVICE_S = 0.05

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
        scenario,
        replicates=(REPLICATES, REPLICATES),
        precision=0.05,
        try_changes=False,
        model_error=0.0,
    )
    answer = found.per_replica.estimate * scenario.cluster.replicas
    # Every load of the grid anew, in runs as long as those of the answer.
    count = found.summary["num_prompts"]
    system = System(scenario.with_overrides([f"workload.num_requests={count}"]))
    system.settle(answer)

    def meets(load):
        excess = [min(system.margin(load, k).excess, OVERLOAD) for k in range(REPLICATES)]
        return float(np.mean(excess)) <= 0

    places = range(-STEPS, STEPS + 1)
    met = [meets(answer * GRID**place) for place in places]
    best = max(place for place, carries in zip(places, met, strict=True) if carries)
    print(f"{name}: {answer:.4g}, brute force {answer * GRID**best:.4g}, {count} requests, {met}")
    assert not met[-1]
    assert met == sorted(met, reverse=True)  # no load is met above one that is missed
    assert abs(best) <= 1


def single_server(tmp_path, service, limit, seed, num_requests):
    """M/D/1 or M/M/1: one seat, a step per request, which takes 50 ms or as long as its prompt."""
    lengths = {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 1}
    cost = {"kind": "linear", "t_mem_s": SERVICE_S, "t_flop_s_per_token": 0.0}
    if service == "exponential":
        tokens = -1000 * np.log1p(-(np.arange(20_000) + 0.5) / 20_000)
        rows = "".join(f"{max(1, round(count))},1\n" for count in tokens)
        (tmp_path / "exponential.csv").write_text("prompt_tokens,output_tokens\n" + rows)
        lengths = {"distribution": "empirical", "file": "exponential.csv"}
        cost = {"kind": "linear", "t_mem_s": 0.0, "t_flop_s_per_token": SERVICE_S / 1000}
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 13.0},
                "lengths": lengths,
                "num_requests": num_requests,
            },
            "model": "llama-3.1-8b",
            "scheduler": {
                "max_num_seqs": 1,
                "async_scheduling": False,
                "max_num_batched_tokens": 20_000,
            },
            "kv_cache": {"num_gpu_blocks": 10_000, "max_model_len": 20_000},
            "cost_model": cost,
            "slo": limit,
            "seed": seed,
        },
        tmp_path,
    )


def share_that_waits_less(time_s, rate):
    """P(wait <= time) in M/D/1 (A. K. Erlang, 1909)."""
    terms = (
        (-rate * (time_s - k * SERVICE_S)) ** k
        / math.factorial(k)
        * math.exp(rate * (time_s - k * SERVICE_S))
        for k in range(int(time_s / SERVICE_S) + 1)
    )
    return (1 - rate * SERVICE_S) * math.fsum(terms)


def rate_of_theory(service, limit_s):
    """Rate at which the 99th percentile of wait and service is `limit_s`."""
    if service == "exponential":  # the time in M/M/1 is exponential too
        return 1 / SERVICE_S - math.log(100) / limit_s
    wait_s = limit_s - SERVICE_S
    return brentq(lambda rate: share_that_waits_less(wait_s, rate) - 0.99, 0.5, 19.9)


@pytest.mark.parametrize(
    ("service", "limit_s"),
    [("fixed", 0.2), ("fixed", 0.4), ("fixed", 1.0), ("exponential", 0.5), ("exponential", 2.5)],
)
def test_starting_empty_does_not_flatter_a_percentile(tmp_path, service, limit_s):
    """Loads of 46 to 91 %; runs are asked to be short, and must be made longer.

    What is left of the bias must be less than the precision of 3 % that is asked for.  It is
    not nothing: of sixty intervals, 52 held the truth (the mean wait below has no such bias).
    """
    truth, seeds = rate_of_theory(service, limit_s), 12
    found = [
        find_capacity(
            single_server(tmp_path, service, {"p99_ttft_ms": limit_s * 1e3}, seed, 4000),
            try_changes=False,
            model_error=0.0,
        ).per_replica
        for seed in range(seeds)
    ]
    off = np.array([interval.estimate for interval in found]) / truth - 1
    held = sum(not interval.excludes(truth) for interval in found)
    print(f"{service} {limit_s} s: {off.mean():+.2%} ± {off.std(ddof=1):.2%}, held {held}/{seeds}")
    assert abs(off.mean()) <= 0.02


def test_intervals_hold_the_rate_of_theory(tmp_path):
    # M/D/1 with a mean wait of one service time: W = rho * s / (2 * (1 - rho)) gives rho = 2/3.
    truth, held, runs = 2 / 3 / SERVICE_S, 0, 200
    for seed in range(runs):
        scenario = single_server(tmp_path, "fixed", {"mean_queue_ms": 50}, seed, 6000)
        found = find_capacity(scenario, try_changes=False, model_error=0.0)
        held += not found.per_replica.excludes(truth)
    print(f"{held} of {runs}")
    assert 0.90 <= held / runs <= 0.98
