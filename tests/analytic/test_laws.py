"""Laws that hold exactly on every run: Little's, the utilisation law, the linear price."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import POLICIES, fleet, run, table
from queues import AMPLE

from simulator.recording import FINISHED


def workload(seed, n=60):
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(0.6, n))
    rows = zip(arrival_s, rng.integers(1, 20, n), rng.integers(1, 12, n), strict=True)
    return table(*rows, priority=rng.integers(0, 3, n))


OPTIONS = {
    "max_num_batched_tokens": 32, "max_model_len": 32, "block_size": 2, "usable_blocks": 40,
    "max_num_seqs": 5, "batch_size": 3, "max_wait_s": 2.0,
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", ["fcfs", "sjf", "priority"])
@pytest.mark.parametrize("allocator", ["paged", "contiguous"])
def test_littles_law(policy, order, allocator):
    """L = λW: the requests that a replica says it has, over time, are their times in it.

    The fleet is stopped at every arrival and every finish and asked how many it has, which
    changes at no other moment.
    """
    if policy == "static" and allocator == "contiguous":
        pytest.skip("a static batch reserves its own room")
    if policy == "sglang" and allocator == "contiguous":
        pytest.skip("it pages its cache")
    options = OPTIONS | {"order": order, "allocator": allocator}
    for seed in range(5):
        requests = workload(seed)
        outcome = run(requests, policy, **options).recording.outcome
        assert (outcome.status == FINISHED).all()
        watched = fleet(requests, policy, **options)
        moments = np.unique(np.concatenate([outcome.arrival_s, outcome.finished_s]))
        area = had = before_s = 0.0
        sent = 0
        for now in moments:
            area += had * (now - before_s)
            watched.advance(now)
            due = np.flatnonzero(requests.arrival_s[sent:] <= now) + sent
            watched.deliver(due, np.zeros(len(due), np.int64))
            sent += len(due)
            had, before_s = float(watched.outstanding()[0]), now
        assert had == 0
        assert area == pytest.approx((outcome.finished_s - outcome.arrival_s).sum(), rel=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_littles_law_for_seats(policy):
    """Running requests, step by step, are the times that requests spend in a seat."""
    for seed in range(5):
        # Ample KV, so nobody loses the seat between admission and finish.
        done = run(workload(seed), policy, **OPTIONS | {"usable_blocks": 1 << 20}).recording
        steps, outcome = done.steps, done.outcome
        in_seats = (steps.running * (steps.end_s - steps.start_s)).sum()
        left_s = outcome.finished_s
        if policy == "static":  # the seat is kept to the end of the batch
            ends = {s: outcome.finished_s[outcome.admitted_s == s].max() for s in
                    np.unique(outcome.admitted_s)}  # fmt: skip
            left_s = np.array([ends[s] for s in outcome.admitted_s])
        assert in_seats == pytest.approx((left_s - outcome.admitted_s).sum(), rel=1e-12)


@pytest.mark.parametrize("policy", ["continuous", "orca", "chunked_prefill"])
def test_utilisation_law(policy):
    """Busy time is the work: t_mem a step, t_flop a token, t_seq a scheduled sequence."""
    t_mem_s, t_flop_s, t_seq_s = 0.5, 0.125, 0.25
    for seed in range(5):
        steps = run(
            workload(seed), policy, step_s=(t_mem_s, t_flop_s, t_seq_s), **OPTIONS
        ).recording.steps  # fmt: skip
        sequences = steps.decode_seqs + steps.prefill_seqs
        work_s = (
            t_mem_s * len(steps.start_s)
            + t_flop_s * steps.scheduled_tokens.sum()
            + t_seq_s * sequences.sum()
        )
        assert (steps.end_s - steps.start_s).sum() == pytest.approx(work_s, rel=1e-12)
        assert np.array_equal(steps.end_s, steps.start_s + (steps.gpu_s + steps.host_s))


@pytest.mark.parametrize("batch", [1, 2, 4, 8, 64, 512])
def test_a_decoded_token_costs_t_mem_over_b_plus_t_flop(batch):
    # Exact: powers of two.  T_mem = 1 s, T_flop = 1/64 s.
    requests = table(*[(0.0, 1, 40)] * batch)
    options = AMPLE | {"max_num_seqs": batch, "step_s": (1.0, 1 / 64, 0.0)}
    steps = run(requests, **options).recording.steps
    assert (steps.sampled_tokens == batch).all()
    cost_s = (steps.end_s - steps.start_s) / steps.sampled_tokens
    assert (cost_s == 1 / batch + 1 / 64).all()


@pytest.mark.parametrize("policy", ["continuous", "orca", "chunked_prefill"])
def test_throughput_saturates_at_one_over_t_flop(policy):
    """Tokens per second never exceed 1/T_flop, and come near it as the step grows."""
    t_flop_s = 1 / 64
    reached = []
    for batch in (1, 8, 64, 512, 4096):
        requests = table(*[(0.0, 16, 16)] * batch)
        options = AMPLE | {"max_num_seqs": batch, "step_s": (1.0, t_flop_s, 0.0)}
        recording = run(requests, policy, **options).recording
        reached.append(recording.steps.scheduled_tokens.sum() / recording.end_s * t_flop_s)
    # 16 steps for 31 tokens a request: 1/share = 1 + 16 T_mem / (31 B T_flop)
    expected = [1 / (1 + 16 * 64 / (31 * batch)) for batch in (1, 8, 64, 512, 4096)]
    assert reached == pytest.approx(expected, rel=1e-12)
    assert reached[-1] > 0.99


def test_saturated_chunked_prefill_fills_every_step():
    # Overloaded with prompts: each step takes its budget of 64 tokens.
    requests = table(*[(0.0, 48, 1)] * 200)
    options = AMPLE | {"max_num_batched_tokens": 64, "max_num_seqs": 8}
    steps = run(requests, step_s=(1.0, 1 / 64, 0.0), **options).recording.steps
    assert (steps.scheduled_tokens == 64).all()
    assert steps.end_s[-1] == 200 * 48 / 64 * 2.0
