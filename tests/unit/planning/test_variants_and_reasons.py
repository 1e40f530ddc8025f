"""Reading variants, and sentences on why they differ."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simulator.planning.reasons import reasons, winner
from simulator.planning.variants import parse_variant, split_outside


@pytest.mark.parametrize(
    ("text", "name", "overrides"),
    [
        ("sjf: scheduler.order=sjf", "sjf", ["scheduler.order=sjf"]),
        ("a b:x=1,y=2", "a b", ["x=1", "y=2"]),
        ("as it is:", "as it is", []),
        ("s: slo={p99_ttft_ms: 5, ttft_ms: 6}, seed=1", "s",
         ["slo={p99_ttft_ms: 5, ttft_ms: 6}", "seed=1"]),
        ("q: name='a, b', seed=1", "q", ["name='a, b'", "seed=1"]),
    ],
)  # fmt: skip
def test_variants(text, name, overrides):
    assert parse_variant(text) == (name, overrides)


def test_split_keeps_nested_commas():
    assert split_outside("a=[1,[2,3]],b=(4,5)") == ["a=[1,[2,3]]", "b=(4,5)"]


def summary(**figures: Any) -> dict[str, Any]:
    return {
        "completed": 10,
        "request_goodput": None,
        "goodput_share": None,
        "state": "STABLE",
        "backlog_slope_per_s": 0.0,
        "mean_e2el_ms": 1000.0,
        "mean_queue_ms": 0.0,
        "p99_ttft_ms": 100.0,
        "p99_itl_ms": 20.0,
        "median_itl_ms": 10.0,
        "decode_stall_share": 0.0,
        "tail_bubble_share": 0.0,
        "padding_share": 0.0,
        "preemptions": 0,
        "recomputed_tokens": 0,
        "kv_reserved_unused": 0.0,
        "mean_batch_size": 4.0,
        "replica_start_s": None,
        "limits": [{"resource": "kv_blocks", "share": 0.75}, {"resource": "host", "share": 0.25}],
    } | figures


def test_lowest_latency_wins_without_slos():
    assert winner({"a": summary(), "b": summary(mean_e2el_ms=900.0)})[0] == "b"


def test_goodput_decides_with_slos_and_latency_between_equals():
    runs = {
        "a": summary(request_goodput=5.0, goodput_share=0.9, mean_e2el_ms=10.0),
        "b": summary(request_goodput=5.52, goodput_share=0.99, mean_e2el_ms=400.0),
        "c": summary(request_goodput=5.50, goodput_share=0.99, mean_e2el_ms=300.0),
    }
    assert winner(runs) == ("c", ["b", "c"])
    found = reasons(runs, same_requests=True)
    assert found[0].startswith("b and c serve most within the SLOs: a 5.00/s (90.0% of its")
    assert found[1] == ("c has the lowest mean end-to-end latency: b 400 ms, c 300 ms.")


def test_overload_and_empty_runs_do_not_win():
    runs = {
        "over": summary(state="OVERLOADED", mean_e2el_ms=1.0, backlog_slope_per_s=2.0),
        "steady": summary(),
        "empty": summary(completed=0, mean_e2el_ms=math.nan, state="STABLE"),
    }
    assert winner(runs)[0] == "steady"
    assert any("over: overloaded; its backlog grows by 2.00" in s for s in reasons(runs, True))


def test_what_is_lost_is_named_with_its_figure():
    runs = {
        "static": summary(tail_bubble_share=0.6, padding_share=0.5, mean_queue_ms=500.0),
        "continuous": summary(decode_stall_share=0.2, p99_itl_ms=80.0),
        "chunked": summary(mean_e2el_ms=800.0, preemptions=3, recomputed_tokens=77),
    }
    text = "\n".join(reasons(runs, same_requests=False))
    assert "The variants were sent different requests" in text
    assert (
        "chunked loses less: 0% of running requests' time without a token (continuous 20%)" in text
    )
    assert "static: 60% of its slot-steps" in text
    assert "static: requests wait 500 ms before their first step, 50%" in text
    assert "continuous: running requests get no token for 20% of their time" in text
    assert "is 80 ms against 20 ms with" in text
    assert "chunked: runs out of KV blocks: 3 preemptions, 77 tokens" in text
    assert (
        "chunked: limits, by share of time: KV blocks 75%, Host (the engine's own code) 25%" in text
    )


def test_what_an_autoscaler_spares_and_costs():
    scaled = summary(
        replica_start_s=166.5, mean_replicas=2.46, peak_replicas=4, cost=24.58,
        attribution={"ttft": {"cold_start": 0.64, "queue": 0.36}},
    )  # fmt: skip
    assert (
        "a: 2.5 replicas on average, 4 at most, cost $24.58; 64% of the time to first token goes "
        "to waits while one starts, which takes 166 s."
    ) in reasons({"a": scaled, "b": summary()}, same_requests=True)
