"""Shortest first against first come first served: in the mean and in the tail."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from engine_cases import run, table

from simulator import simulate

SAMPLES = 3


def mean_e2el_s(outputs, order, predicted=None):
    requests = table(*[(0.0, 4, n) for n in outputs], predicted_tokens=predicted or outputs)
    finished = run(requests, max_num_seqs=1, order=order).times("finished_s")
    return sum(end_s for (end_s,) in finished) / len(outputs)


def by_hand_s(outputs):
    """One seat: a request takes 2 s for its 4 tokens of prompt, 1.25 s for each output after."""
    total_s = end_s = 0.0
    for n in outputs:
        end_s += 2 + 1.25 * (n - 1)
        total_s += end_s
    return total_s / len(outputs)


@pytest.mark.parametrize("seed", range(5))
def test_no_order_of_a_queue_has_a_smaller_mean_than_shortest_first(seed):
    # The exchange argument: a longer request in front of a shorter one can only lose.
    outputs = np.random.default_rng(seed).integers(1, 40, 6).tolist()
    best = min(by_hand_s(order) for order in permutations(outputs))
    assert mean_e2el_s(outputs, "sjf") == by_hand_s(sorted(outputs)) == best
    assert mean_e2el_s(outputs, "fcfs") == by_hand_s(outputs) >= best


def test_a_predictor_that_knows_nothing_serves_in_order_of_arrival():
    outputs = [9, 1, 5, 3]
    assert mean_e2el_s(outputs, "sjf", predicted=[7] * 4) == mean_e2el_s(outputs, "fcfs")


def test_near_saturation_sjf_lowers_the_mean_and_raises_the_tail(describe):
    def lognormal(mean):
        return {
            "distribution": "lognormal",
            "mean_prompt_tokens": 800.0,
            "prompt_cv": 0.6,
            "mean_output_tokens": mean,
            "output_cv": 0.6,
        }

    linear = {"kind": "linear", "t_mem_s": 4.8e-3, "t_flop_s_per_token": 1.62e-5}
    base = describe(
        {
            "arrivals": {"process": "burst"},
            "classes": [
                {"name": "short", "share": 0.5, "lengths": lognormal(80.0)},
                {"name": "long", "share": 0.5, "lengths": lognormal(400.0)},
            ],
            "num_requests": 4000,
        },
        scheduler={"max_num_seqs": 16},
        cost_model=linear,
    )
    most = simulate(base).summary["request_throughput"]
    loaded = base.with_overrides([f"workload.arrivals={{process: poisson, rate: {0.95 * most}}}"])

    def latency(*overrides):
        chosen = loaded.with_overrides(overrides)
        runs = [simulate(chosen, replicate=k).summary for k in range(SAMPLES)]
        return np.array([(s["mean_e2el_ms"], s["p99_e2el_ms"]) for s in runs])

    fcfs = latency()
    ratio = {
        name: latency("scheduler.order=sjf", f"workload.predictor={predictor}") / fcfs
        for name, predictor in {
            "oracle": "oracle",
            "noisy": "{lognormal_error: 1.0}",
            "class": "class_mean",
        }.items()
    }
    for name in ratio:
        assert (ratio[name][:, 0] < 1).all(), name
    mean, p99 = (dict(zip(ratio, column, strict=True)) for column in zip(
        *(r.mean(axis=0) for r in ratio.values()), strict=True
    ))  # fmt: skip
    assert mean["oracle"] < mean["noisy"]
    assert mean["oracle"] < mean["class"]
    assert p99["oracle"] > 1
    assert p99["noisy"] > p99["oracle"]
    assert p99["class"] < p99["oracle"]
