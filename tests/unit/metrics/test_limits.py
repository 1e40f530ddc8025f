"""What held the work back, step by step."""

from __future__ import annotations

import pytest
from recordings import recording, req, resolved, step

from simulator.metrics.latency import population
from simulator.metrics.limits import bottleneck, limits


def shares(steps, *overrides, end=None, prompt=10, **more):
    last = end if end is not None else steps[-1]["end_s"]
    rec = recording([req(0.0, prompt, 1, admitted=0.0, first=last, finished=last)], steps, **more)
    found = limits(rec, population(rec), resolved(*overrides))
    assert sum(limit["share"] for limit in found) == pytest.approx(1.0)
    assert [limit["share"] for limit in found] == sorted(
        (limit["share"] for limit in found), reverse=True
    )
    return {limit["resource"]: limit["share"] for limit in found}


def test_idle_is_arrivals():
    assert shares([step(0, 1, decode_seqs=1)], end=4.0) == pytest.approx(
        {"arrivals": 0.75, "decode_bandwidth": 0.25}
    )


def test_host_and_gpu_time():
    found = shares([step(0, 4, host_s=1.0, decode_seqs=2, context_tokens=20)])
    assert found == pytest.approx({"decode_bandwidth": 0.75, "host": 0.25})


def test_prefill_is_what_a_mixed_step_takes_beyond_its_decodes():
    # Linear cost: 10 ms + 0.1 ms per token.  Two decodes alone would take 10.2 ms.
    mixed = 0.010 + 0.0001 * 60
    found = shares(
        [step(0, mixed, decode_seqs=2, context_tokens=20, prefill_seqs=1, prefill_tokens=58)]
    )
    assert found["decode_bandwidth"] == pytest.approx(0.0102 / mixed)
    assert found["prefill_compute"] == pytest.approx(0.0058 / mixed)


def test_pure_prefill_is_compute():
    assert shares([step(0, 1, prefill_seqs=1)]) == pytest.approx({"prefill_compute": 1.0})


def test_waiting_with_every_seat_taken():
    found = shares([step(0, 1, decode_seqs=4, running=4, waiting=2), step(1, 2, decode_seqs=4)])
    assert found == pytest.approx({"max_num_seqs": 0.5, "decode_bandwidth": 0.5})


def test_waiting_with_seats_and_budget_left_is_memory():
    found = shares([step(0, 1, decode_seqs=2, scheduled_tokens=2, running=2, waiting=1)])
    assert found == pytest.approx({"kv_blocks": 1.0})


def test_waiting_with_the_budget_used_up_is_the_step_itself():
    found = shares([step(0, 1, prefill_seqs=2, scheduled_tokens=64, running=2, waiting=1)])
    assert found == pytest.approx({"prefill_compute": 1.0})


def test_whole_prompts_leave_budget_over():
    waiting = {"prefill_seqs": 1, "scheduled_tokens": 40, "running": 1, "waiting": 1}
    policy = "scheduler.policy=continuous"
    roomy = shares([step(0, 1, kv_blocks=3, **waiting)], policy, prompt=40)
    assert roomy == pytest.approx({"prefill_compute": 1.0})
    full = shares([step(0, 1, kv_blocks=98, **waiting)], policy, prompt=40)
    assert full == pytest.approx({"kv_blocks": 1.0})  # 41 tokens need 3 blocks, 2 are free


def test_waiting_behind_a_static_batch():
    found = shares(
        [step(0, 1, decode_seqs=1, waiting=1)],
        "scheduler={policy: static, static: {batch_size: 4}}",
    )
    assert found == pytest.approx({"static_batch": 1.0})


def test_run_without_time_has_no_limit():
    rec = recording([req(0.0)], [], end_s=0.0)
    assert limits(rec, population(rec), resolved()) == []
    assert bottleneck([]) is None
