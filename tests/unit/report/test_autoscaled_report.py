"""A run whose replicas come and go: its parts add up, and the report shows them."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.metrics.latency import e2el_s, ttft_s
from simulator.planning.capacity.system import System
from simulator.planning.compare import compare
from simulator.report.html import data
from simulator.report.html.page import html_page
from simulator.report.plots import plot_load
from simulator.report.text import text_report


def scenario(**more):
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "profile", "points": [[0, 2], [30, 2], [40, 12], [70, 2]]},
                "lengths": {"distribution": "fixed", "prompt_tokens": 200, "output_tokens": 50},
                "duration_s": 120,
            },
            "model": "llama-3.1-8b",
            # A step of m tokens lasts 20 ms + 0.5 ms for each: one replica serves some 7/s.
            "cost_model": {"kind": "linear", "t_mem_s": 0.02, "t_flop_s_per_token": 5e-4},
            "cluster": {
                "router": "least_outstanding",
                "autoscaler": {
                    "policy": "target_tracking", "target": 8, "max_replicas": 4,
                    "poll_interval_s": 5, "scale_down_stabilization_s": 20,
                    "engine_start_s": 10, "load_gb_per_s": 1.606,
                } | more,
            },
            "scheduler": {"max_num_seqs": 16},
            "slo": {"p99_ttft_ms": 500},
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def result():
    return simulate(scenario())


def test_parts_of_latency_add_up(result):
    outcome, parts = result.recording.outcome, result.attribution
    assert np.allclose(parts.ttft_s.sum(axis=1), ttft_s(outcome), rtol=0, atol=1e-9)
    assert np.allclose(parts.e2el_s.sum(axis=1), e2el_s(outcome), rtol=0, atol=1e-9)
    assert result.summary["attribution"]["ttft"]["cold_start"] > 0.1
    assert not result.check_integrity()


def test_the_report_shows_them(result):
    summary = result.summary
    assert summary["scale_ups"] >= 2
    assert 1 < summary["mean_replicas"] < summary["peak_replicas"] <= 4
    text = text_report(summary, result.resolved)
    assert f"Replicas, mean:                          {summary['mean_replicas']:.2f}" in text
    # 16.06e9 bytes of weights (8.03e9 parameters in bf16) at 1.606 GB/s take 10 s.
    assert "Start of a replica (s):                  20.00" in text
    assert "a new replica serves 20 s after its order" in " ".join(text.split())
    *_, replicas = data.load(result.recording)["panels"]
    paid, serving = replicas["series"]
    assert max(paid["y"]) == summary["peak_replicas"]
    assert (paid["y"][-1], serving["y"][-1]) == (0, 0)  # at the end all are given back
    assert "Cold start (paid for, not ready)" in html_page(result)
    assert len(plot_load(result).axes) == 3


def test_variants_share_their_requests():
    found = compare(
        scenario(),
        {
            "eager": ["cluster.autoscaler.target=4"],
            "fixed": ["cluster.autoscaler=null", "cluster.replicas=4"],
        },
    )
    eager, fixed = (one.recording for one in found.results.values())
    assert np.array_equal(eager.requests.arrival_s, fixed.requests.arrival_s)
    summaries = found.summaries
    assert summaries["eager"]["gpu_hours"] < summaries["fixed"]["gpu_hours"]
    assert summaries["fixed"]["mean_replicas"] == 4


def test_capacity_is_of_a_given_number_of_replicas():
    with pytest.raises(InputError, match=r"cluster\.autoscaler changes.*autoscaler=null"):
        System(scenario())
