"""What static batching loses: slots of finished rows, padding, latency."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import run, table

from simulator import simulate
from simulator.scenario import Scenario


def test_bubble_and_padding_of_one_batch_by_hand():
    # Prompts of 4, 2 and 1: padded to 3 x 4 = 12 tokens, 5 of them padding.
    # Outputs of 5, 1 and 2: 3 rows x 5 steps = 15 slot-steps, 4 + 3 = 7 of them finished rows.
    done = run(table((0.0, 4, 5), (0.0, 2, 1), (0.0, 1, 2)), "static", batch_size=3)
    steps = done.recording.steps
    assert steps.padding_tokens.sum() == 5
    assert steps.bubble_seqs.tolist() == [0, 1, 2, 2, 2]
    assert (steps.decode_seqs + steps.prefill_seqs + steps.bubble_seqs).tolist() == [3] * 5


@pytest.mark.parametrize("b", [2, 8, 32])
def test_waste_is_one_less_mean_over_expected_maximum(describe, b):
    # Uniform on 1..N: E[n] = (N + 1) / 2 and E[max of b] = sum over k of 1 - ((k - 1) / N)^b.
    n = 200
    longest = sum(1 - ((k - 1) / n) ** b for k in range(1, n + 1))
    expected = 1 - (n + 1) / 2 / longest
    lengths = {
        "distribution": "uniform",
        "min_prompt_tokens": 1,
        "max_prompt_tokens": n,
        "min_output_tokens": 1,
        "max_output_tokens": n,
    }
    result = simulate(
        describe(
            {"arrivals": {"process": "burst"}, "lengths": lengths, "num_requests": 6400},
            scheduler={"policy": "static", "static": {"batch_size": b}},
        )
    )
    steps = result.recording.steps
    padding = steps.padding_tokens.sum()
    prefilled = padding + steps.prefill_tokens.sum()
    # 200 batches of 32 and more: the standard error of either share is below 0.007.
    assert result.summary["tail_bubble_share"] == pytest.approx(expected, abs=0.02)
    assert padding / prefilled == pytest.approx(expected, abs=0.02)


def medians_s(rate, *overrides):
    base = Scenario.from_yaml(
        "static-vs-continuous",
        [
            "workload.num_requests=2000",
            f"workload.arrivals.rate={rate}",
            "cluster.engine_version=0.12",
            "scheduler.async_scheduling=false",
            "kv_cache.enable_prefix_caching=false",
            *overrides,
        ],
    )
    return {
        policy: simulate(base.with_overrides([f"scheduler.policy={policy}"])).summary
        for policy in ("static", "continuous")
    }


def test_static_has_2_to_4_times_the_median_latency_at_light_load_and_more_at_higher():
    ratio = {}
    for rate in (0.5, 2.0):
        summary = medians_s(rate)
        assert summary["continuous"]["state"] == "STABLE"
        ratio[rate] = [
            summary["static"][key] / summary["continuous"][key]
            for key in ("median_e2el_ms", "mean_e2el_ms", "p99_e2el_ms")
        ]
    assert 2 < ratio[0.5][0] < 4
    assert np.all(np.array(ratio[2.0]) > np.array(ratio[0.5]))
    assert ratio[2.0][0] > 5
    assert ratio[2.0][2] > 2.5


def test_with_all_lengths_alike_static_costs_less_than_twice_the_median_latency():
    alike = "workload.lengths={distribution: fixed, prompt_tokens: 1155, output_tokens: 211}"
    summary = medians_s(1.0, alike)
    ratio = summary["static"]["median_e2el_ms"] / summary["continuous"]["median_e2el_ms"]
    assert 1 < ratio < 2


def test_both_keep_the_gpu_busy_and_only_continuous_keeps_the_seats_useful():
    everything = medians_s(1.0, "workload.arrivals={process: burst}")
    static, continuous = everything["static"], everything["continuous"]
    assert static["utilisation"] > 0.999
    assert continuous["utilisation"] > 0.999
    assert static["mean_batch_size"] > 30
    assert static["tail_bubble_share"] > 0.5
    assert continuous["mean_batch_size"] > 30
    assert continuous["tail_bubble_share"] == 0
    assert continuous["request_throughput"] > 3 * static["request_throughput"]
