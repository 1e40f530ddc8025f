"""The bill, its shares and the energy behind it, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, resolved, step

from simulator import Scenario, simulate
from simulator.metrics.cost import Part, class_shares, shares_of_classes, step_time_of
from simulator.metrics.latency import population
from simulator.metrics.summary import summarize

# Steps of the linear model cost 10 ms + 0.1 ms per token.  Prompts of 10 tokens of `a` and 30
# of `b` share a step of 50 ms; then both decode, 10.2 ms; then `a` decodes alone, 10.1 ms.
ROWS = [
    req(0.0, prompt=10, output=3, admitted=0.0, first=0.05, finished=0.0703, class_id=0),
    req(0.0, prompt=30, output=2, admitted=0.0, first=0.05, finished=0.0602, class_id=1),
]
STEPS = [
    step(0.0, 0.05, prefill_seqs=2, prefill_tokens=40),
    step(0.05, 0.0602, decode_seqs=2, context_tokens=42),
    step(0.0602, 0.0703, decode_seqs=1, context_tokens=12),
]
A_S, B_S = 0.0125 + 0.0051 + 0.0101, 0.0375 + 0.0051
BUSY_S = 0.0703


def two_classes(**more):
    return recording(ROWS, STEPS, class_names=("a", "b"), **more)


def test_classes_pay_for_the_steps_that_their_tokens_took():
    made = two_classes()
    shares = class_shares(made, step_time_of(made.steps, resolved()), population(made))
    assert shares == pytest.approx([A_S / BUSY_S, B_S / BUSY_S])


def test_what_is_decoded_of_prompts_from_another_pool():
    # Two decode in a step of 10.2 ms, `b` alone in two of 10.1 ms; the first token is a decode.
    rows = [
        req(0.0, prompt=10, output=1, admitted=0.0, first=0.0102, finished=0.0102, class_id=0),
        req(0.0, prompt=30, output=3, admitted=0.0, first=0.0102, finished=0.0304, class_id=1),
    ]
    steps = [
        step(0.0, 0.0102, decode_seqs=2, context_tokens=40),
        step(0.0102, 0.0203, decode_seqs=1, context_tokens=31),
        step(0.0203, 0.0304, decode_seqs=1, context_tokens=32),
    ]
    made = recording(rows, steps, class_names=("a", "b"))
    time = step_time_of(made.steps, resolved())
    shares = class_shares(made, time, population(made), first_decode=0)
    assert shares == pytest.approx([0.0051 / 0.0304, 0.0253 / 0.0304])


def test_a_first_token_from_another_pool_is_there_before_the_first_step():
    # `b` decodes alone, 10.1 ms, with `a`, 10.2 ms, and alone; `a` has waited for its KV.
    rows = [
        req(0.0, prompt=10, output=2, admitted=0.1101, first=0.05, finished=0.1203, class_id=0),
        req(0.0, prompt=30, output=4, admitted=0.1, first=0.05, finished=0.1304, class_id=1),
    ]
    steps = [
        step(0.1, 0.1101, decode_seqs=1, context_tokens=31),
        step(0.1101, 0.1203, decode_seqs=2, context_tokens=43),
        step(0.1203, 0.1304, decode_seqs=1, context_tokens=33),
    ]
    made = recording(rows, steps, class_names=("a", "b"))
    shares = class_shares(made, step_time_of(made.steps, resolved()), population(made))
    assert shares == pytest.approx([0.0051 / 0.0304, 0.0253 / 0.0304])


def test_a_part_that_nobody_used_is_paid_for_by_all():
    used, idle = two_classes(), recording(ROWS, [], class_names=("a", "b"))
    known = resolved()
    parts = [Part(one, known, step_time_of(one.steps, known), 1.0) for one in (used, idle)]
    idle_too = shares_of_classes(parts, population(used))
    assert idle_too == pytest.approx([A_S / BUSY_S, B_S / BUSY_S])


def test_who_uses_a_pool_that_costs_nothing_pays_nothing_for_it():
    scenario = Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "constant", "rate": 2.0},
                "lengths": {"distribution": "fixed", "prompt_tokens": 64, "output_tokens": 8},
                "num_requests": 4,
            },
            "model": "llama-3.1-8b",
            "cluster": {"pools": {"decode": {"price_per_gpu_hour": 0.0}}},
        }
    )
    summary = simulate(scenario).summary
    assert summary["prompts_share_of_cost"] == 1.0
    assert summary["price_per_million_output_tokens"] == 0.0


def test_the_bill_by_class_and_by_kind_of_token():
    # $3.60 an hour is a thousandth of a dollar a second.
    summary = summarize(two_classes(), resolved("cluster.price_per_gpu_hour=3.6"))
    bill = BUSY_S / 1000
    a, b = summary["classes"]["a"], summary["classes"]["b"]
    assert summary["cost"] == pytest.approx(bill)
    assert summary["gpu_hours"] == pytest.approx(BUSY_S / 3600)
    assert a["cost"] == pytest.approx(A_S / 1000)
    assert a["cost_per_million_output_tokens"] == pytest.approx(A_S / 1000 / 3 * 1e6)
    assert b["cost_per_million_input_tokens"] == pytest.approx(B_S / 1000 / 30 * 1e6)
    assert b["cost_per_million_total_tokens"] == pytest.approx(B_S / 1000 / 32 * 1e6)
    # Prompts took 50 ms of the 70.3.
    assert summary["price_per_million_input_tokens"] == pytest.approx(0.05 / 1000 / 40 * 1e6)
    assert summary["price_per_million_output_tokens"] == pytest.approx(0.0203 / 1000 / 5 * 1e6)


def test_host_time_is_shared_by_the_sequences_of_the_step():
    rows = [
        req(0.0, prompt=10, output=2, admitted=0.0, first=0.02, finished=0.05, class_id=0),
        req(0.0, prompt=10, output=1, admitted=0.02, first=0.05, finished=0.05, class_id=1),
    ]
    steps = [
        step(0.0, 0.02, prefill_seqs=1, prefill_tokens=10, host_s=0.004),
        # One decodes, 10.1 ms alone, beside the other's prompt; 6 ms of host, 3 for each.
        step(0.02, 0.05, decode_seqs=1, prefill_seqs=1, prefill_tokens=10, context_tokens=11,
             host_s=0.006),
    ]  # fmt: skip
    made = recording(rows, steps, class_names=("a", "b"))
    time = step_time_of(made.steps, resolved())
    assert class_shares(made, time, population(made)) == pytest.approx(
        [(0.02 + 0.0101 + 0.003) / 0.05, (0.03 - 0.0101 - 0.003) / 0.05]
    )


def test_idle_replicas_are_paid_for_by_all():
    # The same on the first of four replicas.
    summary = summarize(
        two_classes(replicas=4), resolved("cluster.price_per_gpu_hour=3.6", "cluster.replicas=4")
    )
    a, b = summary["classes"]["a"], summary["classes"]["b"]
    assert summary["cost"] == pytest.approx(4 * BUSY_S / 1000)
    assert a["cost"] == pytest.approx(4 * A_S / 1000)
    assert a["cost"] + b["cost"] == pytest.approx(summary["cost"], rel=1e-14)


def test_energy_follows_what_the_gpu_does():
    # 700 W at most: all of it for 50 ms of prompts; decoding two is a seventh of the way, in the
    # logarithm, from 300 W to the 600 W of 128; then one; then a second GPU idle at 105 W.
    summary = summarize(
        two_classes(replicas=2),
        resolved("cluster.replicas=2", "cluster.pue=1.2", "cluster.grid_co2_g_per_kwh=400"),
    )
    board_j = 700 * 0.05 + (300 + 300 / 7) * 0.0102 + 300 * 0.0101 + 105 * BUSY_S
    assert summary["mean_gpu_power_w"] == pytest.approx(board_j / (2 * BUSY_S))
    kwh = board_j * 1.2 / 3.6e6
    assert summary["energy_kwh"] == pytest.approx(kwh)
    assert summary["energy_wh_per_million_output_tokens"] == pytest.approx(kwh * 1e3 / 5 * 1e6)
    assert summary["co2_kg"] == pytest.approx(kwh * 0.4)


def test_a_reserved_price_goes_with_the_catalogues_own():
    assert resolved().scenario.cluster.reserved_price_per_gpu_hour == 2.35  # March 2026
    own = resolved("cluster.price_per_gpu_hour=1.5")
    assert own.scenario.cluster.reserved_price_per_gpu_hour is None


@pytest.mark.parametrize("policy", ["static", "continuous", "chunked_prefill", "sglang"])
def test_shares_add_up_on_any_run(policy):
    scenario = Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "poisson", "rate": 30.0},
                "lengths": {"distribution": "uniform", "min_prompt_tokens": 1,
                            "max_prompt_tokens": 90, "min_output_tokens": 1,
                            "max_output_tokens": 60},
                "num_requests": 150,
                "classes": [{"name": name, "share": share}
                            for name, share in (("a", 0.2), ("b", 0.3), ("c", 0.5))],
            },
            "model": "llama-3.1-8b",
            "cluster": {"replicas": 2},
            "scheduler": {"policy": policy, "max_num_seqs": 8, "static": {"batch_size": 8}},
            "kv_cache": {"num_gpu_blocks": 60 if policy != "sglang" else 900,
                         "max_model_len": 256},
        }
    )  # fmt: skip
    summary = simulate(scenario).summary
    classes = summary["classes"].values()
    assert sum(one["cost_share"] for one in classes) == pytest.approx(1.0, rel=1e-12)
    assert all(one["cost_share"] > 0.02 for one in classes)
    per_token = summary["price_per_million_input_tokens"] * summary["total_input_tokens"]
    per_token += summary["price_per_million_output_tokens"] * summary["total_output_tokens"]
    assert per_token / 1e6 == pytest.approx(summary["cost"])


def test_nobody_finished():
    made = recording(
        [req(0.0, class_id=0), req(0.0, class_id=1)], class_names=("a", "b"), end_s=1.0
    )
    shares = class_shares(made, step_time_of(made.steps, resolved()), population(made))
    assert np.isnan(shares).all()
