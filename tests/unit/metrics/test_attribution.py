"""Where latency went: by hand, and that the parts add up on any run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import recording, req, resolved, step

from simulator import Scenario, simulate
from simulator.metrics.attribution import PARTS, attribute, shares
from simulator.metrics.latency import e2el_s, ttft_s
from simulator.recording import FINISHED

# Steps of the linear model cost 10 ms + 0.1 ms per token: two decodes take 10.2 ms alone.
ALONE_S = 0.0102


def parts(row):
    return dict(zip(PARTS, row.tolist(), strict=True))


def test_by_hand():
    # A request waits 0.1 s, shares a step of 30 prompt tokens of which 10 are its own, and
    # decodes through two steps: the first also has a prompt of another.
    rows = [req(0.0, prompt=10, output=3, admitted=0.1, first=0.14, finished=0.22)]
    steps = [
        step(0.1, 0.14, prefill_seqs=2, prefill_tokens=30, host_s=0.01),
        step(0.14, 0.19, prefill_seqs=1, prefill_tokens=20, decode_seqs=2, context_tokens=22),
        step(0.19, 0.22, decode_seqs=2, context_tokens=24, host_s=0.0198),
    ]
    found = attribute(recording(rows, steps), resolved())
    first, later = parts(found.ttft_s[0]), parts(found.decode_s[0])
    assert first == pytest.approx(
        dict.fromkeys(PARTS, 0.0)
        | {"queue": 0.1, "prefill": 0.03 / 3, "interference": 0.03 * 2 / 3, "host": 0.01}
    )
    # The linear model knows no context, so that nothing is the KV cache's.
    assert later == pytest.approx(
        dict.fromkeys(PARTS, 0.0)
        | {"interference": 0.05 - ALONE_S, "decode_weights": 2 * ALONE_S, "host": 0.0198}
    )
    assert shares(found.e2el_s, np.array([True]))["queue"] == pytest.approx(0.1 / 0.22)


def test_a_preemption_by_hand():
    # It loses its blocks at 0.02, waits through a step of others and is computed again.
    rows = [req(0.0, prompt=10, output=3, admitted=0.0, first=0.01, finished=0.06)]
    steps = [
        step(0.00, 0.01, prefill_seqs=1, prefill_tokens=10),
        step(0.01, 0.02, decode_seqs=1, context_tokens=11),
        step(0.02, 0.03, prefill_seqs=1, prefill_tokens=50),
        step(0.03, 0.05, prefill_seqs=1, prefill_tokens=12),
        step(0.05, 0.06, decode_seqs=1, context_tokens=13),
    ]
    found = attribute(recording(rows, steps, losses=[(0, 0.02, 0.05)]), resolved())
    later = parts(found.decode_s[0])
    assert later == pytest.approx(
        dict.fromkeys(PARTS, 0.0) | {"decode_weights": 0.02, "preemption": 0.03}
    )


def test_what_did_not_finish_has_no_parts():
    found = attribute(recording([req(0.0), req(0.0, reject="queue_full")]), resolved())
    assert np.isnan(found.e2el_s).all()
    assert shares(found.e2el_s, np.zeros(2, bool)) == {}


def scenario(policy, blocks, asynchronous, replicas, rate):
    return Scenario.from_mapping(
        {
            "workload": {
                "arrivals": {"process": "gamma", "rate": rate, "cv": 2.0},
                "lengths": {
                    "distribution": "uniform",
                    "min_prompt_tokens": 1,
                    "max_prompt_tokens": 90,
                    "min_output_tokens": 1,
                    "max_output_tokens": 60,
                },
                "num_requests": 120,
            },
            "model": "llama-3.1-8b",
            "cluster": {"replicas": replicas, "router": "least_outstanding"},
            "scheduler": {
                "policy": policy,
                "max_num_seqs": 16,
                "max_num_batched_tokens": 64,
                "static": {"batch_size": 16},
                "async_scheduling": asynchronous,
            },
            "kv_cache": {
                "num_gpu_blocks": blocks,
                "max_model_len": 160,
                "enable_prefix_caching": False,
            },
        }
    )


@settings(max_examples=12, deadline=None)
@given(
    policy=st.sampled_from(["chunked_prefill", "continuous", "orca", "static"]),
    blocks=st.integers(12, 60),
    asynchronous=st.booleans(),
    replicas=st.integers(1, 2),
    rate=st.sampled_from([5.0, 50.0, 500.0]),
)
def test_parts_add_up_to_the_latency(policy, blocks, asynchronous, replicas, rate):
    asynchronous = asynchronous and policy == "chunked_prefill"
    result = simulate(scenario(policy, blocks, asynchronous, replicas, rate))
    outcome, found = result.recording.outcome, result.attribution
    done = outcome.status == FINISHED
    assert np.allclose(found.ttft_s.sum(axis=1)[done], ttft_s(outcome)[done], rtol=1e-9, atol=0)
    assert np.allclose(found.e2el_s.sum(axis=1)[done], e2el_s(outcome)[done], rtol=1e-9, atol=0)
    assert found.ttft_s[done].min() > -1e-9
    assert found.decode_s[done].min() > -1e-9


@settings(max_examples=6, deadline=None)
@given(blocks=st.integers(12, 20), asynchronous=st.booleans())
def test_each_loss_is_of_a_preempted_request_and_within_its_life(blocks, asynchronous):
    result = simulate(scenario("chunked_prefill", blocks, asynchronous, 1, 500.0))
    outcome, losses = result.recording.outcome, result.recording.losses
    done = outcome.status == FINISHED
    preempted = set(np.flatnonzero(outcome.preemptions > 0).tolist())
    # With steps in flight, the last token may still come after the loss: nothing goes on then.
    assert set(losses.request.tolist()) <= preempted
    assert asynchronous or set(losses.request.tolist()) == preempted
    assert done[losses.request].all()
    assert (losses.until_s > losses.from_s).all()
    assert (losses.from_s >= outcome.admitted_s[losses.request]).all()
    assert (losses.until_s <= outcome.finished_s[losses.request] + 1e-12).all()
    counts = np.bincount(losses.request, minlength=len(done))
    assert (counts <= outcome.preemptions).all()
    order = np.lexsort((losses.from_s, losses.request))
    same = np.diff(losses.request[order]) == 0
    assert (losses.from_s[order][1:][same] >= losses.until_s[order][:-1][same]).all()
