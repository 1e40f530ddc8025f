"""The same small recording as guidellm and as AIPerf would sum it up, by hand.

Two requests: 10 tokens in, 3 out, from 0 s, tokens at 1, 2 and 3 s; and 20 tokens in, 1 out,
from 0.5 s, token at 2 s.
"""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, resolved

from simulator.errors import InputError
from simulator.report.formats import require_format
from simulator.report.formats.aiperf import aiperf_block, aiperf_metrics, statistics
from simulator.report.formats.ascii_table import Column, ascii_table
from simulator.report.formats.guidellm import Distribution, guidellm_block, guidellm_figures

REQUESTS = [
    req(0.0, 10, 3, admitted=0.0, first=1.0, finished=3.0),
    req(0.5, 20, 1, admitted=1.0, first=2.0, finished=2.0),
]
STATIC = "scheduler={policy: static, static: {batch_size: 4, stream: false}}"


def guidellm(*overrides, rows=REQUESTS, **more):
    return guidellm_figures(recording(rows, **more), resolved(*overrides).scenario)


def aiperf(*overrides, rows=REQUESTS, **more):
    metrics = aiperf_metrics(recording(rows, **more), resolved(*overrides).scenario)
    return {m.name: statistics(m.values) for m in metrics}


def test_guidellms_latencies():
    found = guidellm()
    # ITL: (3 - 1) / 2 = 1 s with two gaps; the one-token request has none and no weight.
    assert (found.itl_ms.mean, found.itl_ms.quantile(0.95)) == (1000, 1000)
    # TPOT: 3 / 3 = 1 s for three tokens, 1.5 / 1 for one; three quarters of the weight is 1 s.
    assert found.tpot_ms.mean == pytest.approx((3 * 1000 + 1500) / 4)
    assert (found.tpot_ms.quantile(0.5), found.tpot_ms.quantile(0.95)) == (1000, 1500)
    # Latencies 1.5 and 3 s: half of them have ended by 1.5 s; nothing is interpolated.
    assert (found.latency_s.quantile(0.5), found.latency_s.quantile(0.95)) == (1.5, 3.0)
    assert (found.ttft_ms.mean, found.ttft_ms.quantile(0.5)) == (1250, 1000)


def test_guidellms_rates_and_concurrency():
    found = guidellm()
    # One request until 0.5 s, two until 2 s, one until 3 s.
    assert found.concurrency.mean == pytest.approx((0.5 + 2 * 1.5 + 1) / 3)
    assert found.concurrency.quantile(0.5) == 1
    assert found.concurrency.quantile(0.51) == 2
    assert found.requests_per_s == pytest.approx(2 / 3)
    # First tokens at 1 and 2 s, the last token at 3 s.
    assert found.input_tokens_per_s == pytest.approx(30 / 1)
    assert found.output_tokens_per_s == pytest.approx(4 / 2)
    assert found.total_tokens_per_s == pytest.approx(34 / 2)


def test_guidellm_counts_all_requests_in_rates_and_completed_ones_in_latencies():
    rows = [*REQUESTS, req(1.0, reject="queue_full"), req(2.0, 5, 9, admitted=3.0)]
    found = guidellm(rows=rows, end_s=4.0)
    assert len(found.latency_s.values) == 2
    assert found.duration_s == 4.0
    assert found.requests_per_s == 4 / 4
    # 1 until 0.5 s, 2 until 2 s, 2 until 3 s (one ends, one comes), 1 until 4 s.
    assert found.concurrency.mean == pytest.approx((0.5 + 2 * 1.5 + 2 + 1) / 4)


def test_a_weighted_median_is_the_value_that_reaches_half():
    sample = Distribution(np.array([30.0, 10.0, 20.0]), np.array([2.0, 1.0, 1.0]))
    assert [sample.quantile(q) for q in (0.25, 0.5, 0.51)] == [10, 20, 30]
    assert np.isnan(Distribution(np.array([1.0]), np.array([0.0])).quantile(0.5))


def test_aiperfs_metrics():
    found = aiperf()
    # avg, min, max, p99, p90, p50, std: of 1 and 1.5 s, interpolated, population's std.
    assert found["Time to First Token"] == pytest.approx([1250, 1000, 1500, 1495, 1450, 1250, 250])
    assert found["Request Latency"][:3] == [2250, 1500, 3000]
    # (3 - 1) / (3 - 1) s; the one-token request has none.
    assert found["Inter Token Latency"] == [1000, 1000, 1000, 1000, 1000, 1000, 0]
    assert found["Output Token Throughput Per User"][0] == 1.0
    assert found["Output Sequence Length"][0] == 2
    assert found["Input Sequence Length"][0] == 15
    assert found["Output Token Throughput"] == [4 / 3, *[None] * 6]
    assert found["Request Throughput"][0] == 2 / 3
    assert found["Request Count"][0] == 2


def test_an_answer_that_comes_whole_has_no_token_latencies():
    whole = [req(0.0, 10, 3, admitted=0.0, first=3.0, finished=3.0)]
    found = guidellm(STATIC, rows=whole)
    assert np.isnan(found.ttft_ms.quantile(0.5))
    assert np.isnan(found.itl_ms.mean)
    assert found.tpot_ms.mean == 1000  # 3 s for 3 tokens, which guidellm takes from the start
    assert "Inter Token Latency" not in aiperf(STATIC, rows=whole)
    assert "Request Latency" in aiperf(STATIC, rows=whole)


def test_nothing_completed_is_printed_without_figures():
    nothing = recording([req(0.0, reject="queue_full")])
    scenario = resolved().scenario
    tables = guidellm_block(nothing, scenario) + aiperf_block(nothing, scenario)
    assert "nan" not in tables
    assert any(line.count("|-- ") == 8 for line in tables.splitlines())  # latencies: 4 pairs


def test_table_merges_equal_headings():
    columns = [
        Column(("Load", ""), "poisson"),
        Column(("TTFT", "Mdn"), 1.25),
        Column(("TTFT", "p95"), float("nan")),
    ]
    assert ascii_table(columns) == (
        "|========|=====|=====|\n"
        "|Load    |TTFT       |\n"
        "|        |Mdn  |p95  |\n"
        "|--------|-----|-----|\n"
        "|poisson |1.2  |--   |\n"
        "|========|=====|=====|"
    )


def test_blocks_print_the_figures():
    small, scenario = recording(REQUESTS), resolved().scenario
    latencies = next(
        line for line in guidellm_block(small, scenario).splitlines() if "1000.0" in line
    )
    figures = [cell.strip() for cell in latencies.strip("|").split("|")]
    assert figures == ["poisson", "1.5", "3.0", "1000.0", "1500.0", *["1000.0"] * 3, "1500.0"]
    assert "Inter Token Latency (ms) │ 1,000.00 │" in aiperf_block(small, scenario)


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="'csv' is not printed; choose from report, vllm"):
        require_format("csv")
