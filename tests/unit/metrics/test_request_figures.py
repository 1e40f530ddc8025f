"""Latencies, counts and throughputs of three requests, worked out by hand.

One-second steps, one sequence's prompt per step::

    step      0-1      1-2          2-3          3-4  4-5  5-6  6-7
    prefill   r0(10)   r1(20)       r2(30)
    decode             r0           r0           r2   r2   r2   r2

r0 (3 tokens) arrives at 0, r1 (1 token) at 0.5, r2 (5 tokens) at 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, resolved, step

from simulator.metrics import missed, requests_frame, steps_frame, summarize
from simulator.metrics.attribution import attribute
from simulator.metrics.glossary import (
    GLOSSARY,
    OPTIONAL_COLUMNS,
    REQUEST_COLUMNS,
    STEP_COLUMNS,
)
from simulator.metrics.latency import tpot_s

REQUESTS = [
    req(0.0, 10, 3, admitted=0.0, first=1.0, finished=3.0),
    req(0.5, 20, 1, admitted=1.0, first=2.0, finished=2.0),
    req(1.0, 30, 5, admitted=2.0, first=3.0, finished=7.0),
]
STEPS = [
    step(0, 1, prefill_seqs=1, prefill_tokens=10, scheduled_tokens=10, sampled_tokens=1, running=1),
    step(1, 2, prefill_seqs=1, prefill_tokens=20, scheduled_tokens=21, sampled_tokens=2, running=2,
         decode_seqs=1, context_tokens=11),
    step(2, 3, prefill_seqs=1, prefill_tokens=30, scheduled_tokens=31, sampled_tokens=2, running=2,
         decode_seqs=1, context_tokens=12),
    *[step(t, t + 1, decode_seqs=1, context_tokens=28 + t, scheduled_tokens=1, sampled_tokens=1,
           running=1) for t in range(3, 7)],
]  # fmt: skip
GAPS = [(1.0, 2), (1.0, 4)]


@pytest.fixture
def summary():
    return summarize(recording(REQUESTS, STEPS, GAPS), resolved())


def test_latencies(summary):
    assert summary["mean_ttft_ms"] == pytest.approx(1500)  # 1, 1.5, 2 s
    assert summary["median_ttft_ms"] == pytest.approx(1500)
    assert summary["std_ttft_ms"] == pytest.approx(np.sqrt(1 / 6) * 1000)
    assert summary["p99_ttft_ms"] == pytest.approx(1990)  # 1.5 + 0.98·0.5
    assert summary["p90_ttft_ms"] == pytest.approx(1900)
    assert summary["mean_tpot_ms"] == pytest.approx(1000)  # (3-1)/2 and (7-3)/4; r1 has none
    assert summary["mean_itl_ms"] == pytest.approx(1000)
    assert summary["mean_e2el_ms"] == pytest.approx(3500)  # 3, 1.5, 6 s
    assert summary["p50_e2el_ms"] == pytest.approx(3000)
    assert summary["mean_queue_ms"] == pytest.approx(500)  # 0, 0.5, 1 s
    assert summary["mean_normalised_latency_ms"] == pytest.approx((1 + 1.5 + 1.2) / 3 * 1000)


def test_counts_and_throughputs(summary):
    assert summary["completed"] == 3
    assert summary["duration"] == 7.0  # first arrival to last completion
    assert summary["total_input_tokens"] == 60
    assert summary["total_output_tokens"] == 9
    assert summary["request_throughput"] == pytest.approx(3 / 7)
    assert summary["output_throughput"] == pytest.approx(9 / 7)
    assert summary["total_token_throughput"] == pytest.approx(69 / 7)
    assert summary["max_output_tokens_per_s"] == 2.0
    assert summary["max_concurrent_requests"] == 3  # r0, r1 and r2 between 1 and 2
    assert summary["request_goodput"] is None


def test_batch_and_utilisation(summary):
    assert summary["num_steps"] == 7
    assert summary["mean_batch_size"] == pytest.approx(9 / 7)
    assert summary["mean_tokens_per_step"] == pytest.approx(66 / 7)  # Σ prompt + output - 1
    assert summary["utilisation"] == pytest.approx(1.0)
    assert summary["decode_stall_share"] == pytest.approx(0.0)
    assert summary["tail_bubble_share"] == 0.0
    assert summary["padding_share"] == 0.0


def test_littles_law(summary):
    # Seats: r0 holds one for 3 s, r1 for 1 s, r2 for 5 s.
    assert summary["mean_running"] == pytest.approx(9 / 7)
    assert summary["arrival_rate"] * summary["mean_residence_s"] == pytest.approx(9 / 7)


def test_model_flops_and_bytes(summary):
    # Llama 3.1 8B: hidden 4096, 32 layers, 32 heads and 8 KV heads of 128, MLP 14336,
    # vocabulary 128256.  H100 SXM: 989.4 TFLOP/s dense bf16, 3.35 TB/s.
    linear = 2 * 32 * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14336)
    lm_head = 2 * 128256 * 4096
    attention = 4 * 32 * 128 * 32
    pairs = 12 * 13 / 2 + 20 * 21 / 2 + 34 * 35 / 2
    flops = 66 * linear + 9 * lm_head + pairs * attention
    gpu = resolved().gpu
    assert summary["mfu"] == pytest.approx(flops / (7 * gpu.peak_flops("bf16")))
    weights = linear + lm_head  # bf16: 2 bytes for each of n/2 parameters
    norms = (2 * 32 + 1) * 4096 * 2
    cache = 2 * 8 * 128 * 32 * 2
    context = 11 + 12 + 31 + 32 + 33 + 34
    read = 7 * (weights + norms) + context * cache
    assert summary["mbu"] == pytest.approx(read / (7 * gpu.memory_bandwidth_bytes_per_s))


def test_cost():
    summary = summarize(
        recording(REQUESTS, STEPS, GAPS, replicas=2),
        resolved("cluster.price_per_gpu_hour=3.6", "cluster.replicas=2"),
    )
    # 2 GPUs · $0.001/s · 7 s = $0.014 for 9 output and 69 total tokens
    assert summary["num_gpus"] == 2
    assert summary["cost_per_million_output_tokens"] == pytest.approx(0.014 / 9 * 1e6)
    assert summary["cost_per_million_total_tokens"] == pytest.approx(0.014 / 69 * 1e6)


def test_incomplete_requests_are_counted_beside():
    rows = [
        *REQUESTS,
        req(1.5, 5000, 1, reject="prompt_too_long"),
        req(1.6, 10, 50, admitted=7.0, first=8.0, generated=2),
        req(1.7, 10, 1),
    ]
    summary = summarize(recording(rows, STEPS, GAPS, end_s=9.0), resolved())
    ended = {key: summary[key] for key in ("completed", "rejected", "unfinished", "failed")}
    assert ended == {"completed": 3, "rejected": 1, "unfinished": 2, "failed": 1}
    assert summary["rejected_by_reason"] == {"prompt_too_long": 1}
    assert summary["mean_ttft_ms"] == pytest.approx(1500)  # of the completed
    assert summary["duration"] == 7.0
    assert summary["utilisation"] == pytest.approx(7 / 9)  # of the time until the end


def test_nothing_completed():
    summary = summarize(recording([req(0.0, 10, 5)], end_s=2.0), resolved("slo.p99_ttft_ms=5"))
    assert summary["completed"] == 0
    assert np.isnan(summary["mean_ttft_ms"])
    assert np.isnan(summary["cost_per_million_output_tokens"])
    assert [verdict["met"] for verdict in missed(summary)] == [False]


def test_request_held_back_by_the_client_is_unfinished():
    held = req(0.0, 10, 5) | {"arrival_s": float("nan")}
    rec = recording([REQUESTS[0], held], end_s=3.0)
    rec.requests.arrival_s[1] = 0.0
    assert summarize(rec, resolved())["unfinished"] == 1


def test_warmup_is_cut():
    summary = summarize(recording(REQUESTS, STEPS, GAPS), resolved("warmup_s=1.0"))
    assert summary["warmup_requests"] == 2
    assert summary["completed"] == 1
    assert summary["mean_ttft_ms"] == pytest.approx(2000)
    assert summary["duration"] == 6.0
    assert summary["mean_batch_size"] == pytest.approx(8 / 6)  # the first step is left out
    assert summary["num_steps"] == 7


def test_what_never_arrived_is_no_part_of_the_warmup():
    # One arrives before the cut at 1 s, one after it, one would after the clock has stopped.
    rows = [req(0.0), req(2.0), req(9.0, replica=-1)]
    summary = summarize(recording(rows, end_s=5.0), resolved("warmup_s=1.0"))
    assert (summary["warmup_requests"], summary["unfinished"]) == (1, 1)


def test_tpot_needs_two_tokens():
    np.testing.assert_array_equal(tpot_s(recording(REQUESTS).outcome), [1.0, np.nan, 1.0])


def test_frames_have_the_glossaries_columns():
    rec = recording(REQUESTS, STEPS, GAPS)
    requests, steps = requests_frame(rec, attribute(rec, resolved())), steps_frame(rec)
    assert list(requests) == [name for name in REQUEST_COLUMNS if name not in OPTIONAL_COLUMNS]
    assert list(steps) == [name for name in STEP_COLUMNS if name not in OPTIONAL_COLUMNS]
    assert requests["ttft_ms"].tolist() == [1000.0, 1500.0, 2000.0]
    assert requests["status"].tolist() == ["finished"] * 3
    assert steps["start_s"].tolist() == list(range(7))


def test_glossary_names_every_key(summary):
    for key in summary:
        statistic = "*_" + key.split("_", 1)[-1]
        assert key in GLOSSARY or (key.endswith("_ms") and statistic in GLOSSARY), key
