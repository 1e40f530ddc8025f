"""The printed report, against the block that ``vllm bench serve`` prints."""

from __future__ import annotations

import pytest
from recordings import recording, req, resolved, step

from simulator.errors import InputError
from simulator.metrics import summarize
from simulator.report.benchmark import benchmark_block, parse_percentiles
from simulator.report.text import memory_sum, text_report
from simulator.scenario import Scenario, resolve

REQUESTS = [
    req(0.0, 10, 3, admitted=0.0, first=1.0, finished=3.0),
    req(0.5, 20, 1, admitted=1.0, first=2.0, finished=2.0),
]
STEPS = [
    step(0, 1, prefill_seqs=1, scheduled_tokens=10, sampled_tokens=1, running=1, kv_blocks=1),
    step(1, 2, prefill_seqs=1, decode_seqs=1, scheduled_tokens=21, sampled_tokens=2, running=2),
    step(2, 3, decode_seqs=1, scheduled_tokens=1, sampled_tokens=1, running=1),
]
GAPS = [(1.0, 2)]

# Layout of vLLM's benchmark (vllm/benchmarks/serve.py): "{:<40} {:<10}" and "{:<40} {:<10.2f}"
# between "{s:{c}^50}" headers; only the padding behind the values is left out.
BLOCK = """\
============ Serving Benchmark Result ============
Successful requests:                     2
Failed requests:                         0
Maximum request concurrency:             8
Request rate configured (RPS):           1.00
Benchmark duration (s):                  3.00
Total input tokens:                      30
Total generated tokens:                  4
Request throughput (req/s):              0.67
Request goodput (req/s):                 0.33
Output token throughput (tok/s):         1.33
Peak output token throughput (tok/s):    2.00
Peak concurrent requests:                2.00
Total token throughput (tok/s):          11.33
---------------Time to First Token----------------
Mean TTFT (ms):                          1250.00
Median TTFT (ms):                        1250.00
P99 TTFT (ms):                           1495.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          1000.00
Median TPOT (ms):                        1000.00
P99 TPOT (ms):                           1000.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           1000.00
Median ITL (ms):                         1000.00
P99 ITL (ms):                            1000.00
----------------End-to-end Latency----------------
Mean E2EL (ms):                          2250.00
Median E2EL (ms):                        2250.00
P99 E2EL (ms):                           2985.00
=================================================="""


def report(*overrides, rows=REQUESTS, percentiles=(99,), **more):
    settings = resolved(*overrides)
    summary = summarize(recording(rows, STEPS, GAPS, **more), settings)
    return summary, text_report(summary, settings, percentiles)


def test_block_is_vllms():
    summary, text = report("slo.ttft_ms=1000")
    summary["max_concurrency"] = 8
    assert "\n".join(benchmark_block(summary)) == BLOCK
    assert text.splitlines()[0] == BLOCK.splitlines()[0]


def test_percentiles_can_be_chosen():
    _, text = report(percentiles=(50, 90))
    assert "P90 TTFT (ms):                           1450.00" in text
    assert "P99 TTFT" not in text
    assert parse_percentiles("50, 99") == (50, 99)
    with pytest.raises(InputError, match="98 is not available; choose from 50, 90, 95, 99"):
        parse_percentiles("98")


def test_verdicts_are_marked():
    _, text = report("slo={p99_ttft_ms: 1000, mean_tpot_ms: 1000}")
    assert "✗ p99_ttft_ms <= 1000                    1495.00" in text
    assert "✓ mean_tpot_ms <= 1000                   1000.00" in text


def test_classes_have_rows_and_verdicts():
    classes = "workload.classes=[{name: chat, share: 0.5, slo: {p99_ttft_ms: 1000}}, \
{name: batch, share: 0.5}]"
    _, text = report(classes, class_names=("chat", "batch"))
    assert "✗ chat: p99_ttft_ms <= 1000              1495.00" in text
    batch = next(line for line in text.splitlines() if line.startswith("batch"))
    assert batch.split() == ["batch", "0", *["n/a"] * 6]


def test_what_did_not_complete_is_said():
    rows = [*REQUESTS, req(0.6, reject="queue_full"), req(0.7)]
    _, text = report("slo.p99_ttft_ms=5000", rows=rows, end_s=3.0)
    assert "Rejected, queue full:                    1" in text
    assert "Unfinished requests:                     1" in text
    assert "! 2 requests that did not complete: in no percentile." in text


def test_overload_is_flagged():
    rows = [
        req(float(t), admitted=2.0 * t, first=2.0 * t + 2, finished=2.0 * t + 2) for t in range(200)
    ]
    summary, text = report(rows=rows)
    assert summary["state"] == "OVERLOADED"
    assert summary["latency_depends_on_run_length"]
    assert "! Overloaded: the backlog grows for as long as the run lasts" in text


def test_static_batching_shows_bubble_and_padding_contiguous_its_reservation():
    _, plain = report()
    assert "Tail bubble" not in plain
    assert "Internal fragmentation" in plain
    _, static = report(
        "scheduler={policy: static, static: {batch_size: 4}}",
        "kv_cache.allocator=contiguous",
        "workload.max_tokens=4",
    )
    assert "Tail bubble (% of slot-steps):           0.00" in static
    assert "Padding (% of tokens):                   0.00" in static
    assert "Reserved but unused (% of held):         100.00" in static


def test_warmup_cut_is_printed():
    _, text = report("warmup_s=0.25")
    assert "Warm-up cut (s):                         0.25" in text
    assert "Requests cut with it:                    1" in text


def test_step_cost_and_defaults_are_named():
    _, text = report()
    assert "Step cost: linear: 0.01 s + 0.0001 s/token" in text
    assert "- cluster.engine_version: " in text
    assert all(len(line) <= 88 for line in text.splitlines())


def test_memory_is_summed_line_by_line():
    """The lines add up, and the KV cache holds the blocks: a float's rounding aside."""
    shown = memory_sum(resolve(Scenario.from_yaml("chat-8b-h100")))
    *parts, rest = [size for _, size in shown[:-1]]
    assert sum(parts) == pytest.approx(rest)
    label, blocks = shown[-1]
    bytes_per_block = 16 * 131_072  # llama-3.1-8b: 2 · 32 layers · 8 heads · 128 · 2 B
    assert label == "KV blocks of 16 tokens"
    assert blocks == int(rest * 2**30 // bytes_per_block)
