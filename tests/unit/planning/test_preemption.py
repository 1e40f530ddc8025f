"""Why a run preempts, what that costs and what ends it, on a case worked out by hand.

Two requests of 4 + 6 tokens in blocks of 2: at its end each has 9 tokens in 5 blocks, and 6
blocks are there.  A step of m tokens lasts 1 + m/4 s.
"""

from __future__ import annotations

import pytest

from simulator import Scenario, simulate
from simulator.planning import preemption

TIGHT = {
    "name": "tight",
    "workload": {
        "arrivals": {"process": "burst"},
        "lengths": {"distribution": "fixed", "prompt_tokens": 4, "output_tokens": 6},
        "num_requests": 2,
    },
    "model": "llama-3.1-8b",
    "scheduler": {"max_num_seqs": 2, "max_num_batched_tokens": 16, "async_scheduling": False},
    "kv_cache": {
        "num_gpu_blocks": 7, "block_size": 2, "max_model_len": 12, "enable_prefix_caching": False
    },
    "cost_model": {"kind": "linear", "t_mem_s": 1.0, "t_flop_s_per_token": 0.25},
}  # fmt: skip


def reasons(*overrides):
    return simulate(Scenario.from_mapping(TIGHT).with_overrides(overrides)).preemption_reasons


def test_cause_cost_and_fixes_by_hand():
    # See timelines/test_kv_limits.py: r1 is preempted at 6 s with 6 tokens, and computes 4 + 3
    # again from 9.75 s on (2.75 s); then 2 steps of 1.25 s: 15 s.  Together in 11 blocks: 3 s,
    # then 5 steps of 1.5 s.  One by one: 2 + 5 x 1.25 = 8.25 s, and twice that.
    # A full step of 16 tokens costs 5 s, so 6 tokens 1.875 s of the 15 s.
    cause, cost, fewer, more = reasons()
    assert cause.startswith(
        "1 preemption of 1 request, the first at 6.00 s: the 2 requests that ran then would come "
        "to 10 KV blocks by their ends, and 6 are there."
    )
    assert cost.startswith("6 tokens were computed again, 25.0% of all: about 1.88 s, 12.5% of")
    assert fewer == (
        "scheduler.max_num_seqs=1 (now 2) ends it (tried: 0 preemptions, mean end-to-end latency "
        "12.4 s instead of 12.4 s)."
    )
    assert more == (
        "kv_cache.num_gpu_blocks=11 (now 7) ends it (tried: 0 preemptions, mean end-to-end "
        "latency 10.5 s instead of 12.4 s)."
    )


def test_swapping_costs_copies():
    # The same two requests: r1 leaves with 6 tokens in 3 blocks, and comes back once.
    _, cost, *_ = reasons("scheduler.policy=continuous", "scheduler.preemption=swap")
    assert cost.startswith("6 KV blocks were copied to host memory or back, for which steps waited")


def test_sglang_bets_on_short_outputs():
    # Six requests come to 2 + 30 tokens each, 186 with KV by their ends, and 170 are there.  The
    # last is admitted beside five with 28 to come, of which 0.7 count: 98, and 2 + 30 its own.
    cause, *_ = reasons(
        "scheduler.policy=sglang",
        "scheduler.max_num_seqs=8",
        "workload.arrivals={process: constant, rate: 1}",
        "workload.lengths={distribution: fixed, prompt_tokens: 2, output_tokens: 30}",
        "workload.num_requests=6",
        "workload.max_tokens=30",
        "kv_cache.max_model_len=40",
        "kv_cache.num_gpu_blocks=86",
    )
    assert "Room is kept for a part of the declared outputs only" in cause


def test_a_long_run_is_told_bounds_that_need_no_trial(monkeypatch):
    monkeypatch.setattr(preemption, "MOST_STEPS", 0)
    *_, fewer, more = reasons()
    always = "ends it, whatever the order in which requests come."
    assert fewer == f"scheduler.max_num_seqs=1 (now 2) {always}"
    assert more == f"kv_cache.num_gpu_blocks=11 (now 7) {always}"


def test_nothing_is_said_where_nobody_is_preempted():
    assert reasons("kv_cache.num_gpu_blocks=11") == []


def test_memory_that_gives_the_blocks_is_computed():
    # 0.28 of an H100 leaves few blocks for bf16 keys and values; half the bytes make twice.
    overrides = [
        "workload.num_requests=300", "kv_cache.max_model_len=16384",
        "kv_cache.gpu_memory_utilization=0.28",
    ]  # fmt: skip
    result = simulate(Scenario.from_yaml("chat-8b-h100", overrides))
    more = result.preemption_reasons[-1]
    wanted = float(more.split("gpu_memory_utilization=")[1].split(" ")[0])
    assert 0.28 < wanted < 0.4
    calmed = [*overrides[:-1], f"kv_cache.gpu_memory_utilization={wanted}"]
    assert simulate(Scenario.from_yaml("chat-8b-h100", calmed)).summary["preemptions"] == 0
    fp8 = simulate(Scenario.from_yaml("chat-8b-h100", [*overrides, "model.kv_dtype=fp8"]))
    assert f"model.kv_dtype=fp8 makes {fp8.resolved.num_gpu_blocks:,} of the same" in more
    assert fp8.resolved.num_gpu_blocks == pytest.approx(2 * result.resolved.num_gpu_blocks, abs=1)
    assert fp8.summary["preemptions"] == 0
