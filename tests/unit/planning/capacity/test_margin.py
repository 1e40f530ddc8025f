"""Margins of recordings written out by hand."""

from __future__ import annotations

import math

import pytest
from recordings import recording, req, resolved, step

from simulator.planning.capacity.margin import HOPELESS, margin


def scenario(*overrides):
    return resolved(*overrides).scenario


def done(arrival, ttft, **more):
    first = arrival + ttft
    return req(arrival, admitted=arrival, first=first, finished=first, **more)


def test_worst_objective():
    run = recording([done(0.0, 0.1), done(1.0, 0.3), done(2.0, 0.2)], [step(0, 3)])
    found = margin(run, scenario("slo.p50_ttft_ms=400", "slo.mean_e2el_ms=100"))
    assert found.objective == "mean_e2el_ms"
    assert found.value_ms == pytest.approx(200.0)
    assert found.excess == pytest.approx(math.log(2.0))
    assert not found.met
    assert margin(run, scenario("slo.p50_ttft_ms=200.000001")).met


def test_requests_skipped_at_the_start():
    run = recording([done(0.0, 9.0), done(1.0, 0.1), done(2.0, 0.1)], [step(0, 3)])
    assert not margin(run, scenario("slo.mean_ttft_ms=100.01")).met
    assert margin(run, scenario("slo.mean_ttft_ms=100.01"), skip=1).met


def test_the_refused_never_get_an_answer():
    rows = [done(float(k), 0.1) for k in range(9)] + [req(9.0, reject="queue_full")]
    run = recording(rows, [step(0, 10)])
    assert margin(run, scenario("slo.p50_ttft_ms=200")).met
    assert margin(run, scenario("slo.p99_ttft_ms=200")).excess == HOPELESS


def test_the_unfinished_took_what_they_had():
    rows = [done(float(k), 0.1) for k in range(3)] + [req(3.0)]
    run = recording(rows, [step(0, 10)], end_s=10.0)
    found = margin(run, scenario("slo.mean_e2el_ms=100"))
    assert found.value_ms == pytest.approx((0.3 + 7.0) / 4 * 1e3)


def test_class_objectives():
    rows = [done(0.0, 0.1), done(1.0, 0.5, class_id=1)]
    run = recording(rows, [step(0, 2)], class_names=("chat", "batch"))
    classes = "[{name: chat, share: 0.5, slo: {p99_ttft_ms: 200}}, {name: batch, share: 0.5}]"
    found = margin(run, scenario(f"workload.classes={classes}"))
    assert found.objective == "chat: p99_ttft_ms"
    assert found.met


def test_nothing_to_measure_is_hopeless():
    run = recording([req(0.0, reject="prompt_too_long")])
    assert margin(run, scenario("slo.p99_ttft_ms=1")).excess == HOPELESS
