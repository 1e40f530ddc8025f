"""Prefill and decode pools where they reduce to queues in a row."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import STEP_S, run, table
from pool_cases import serve

from simulator.cluster.disaggregation import prompts_only

FREE = {"block_s": 0.0, "latency_s": 0.0}
# One request at a time in either pool, its prompt in one step.
ONE = {"max_num_seqs": 1, "max_num_batched_tokens": 1 << 20}


def test_prefill_is_a_cluster_of_requests_for_one_token():
    random = np.random.default_rng(3)
    arrivals = np.cumsum(random.exponential(3.0, 60))
    requests = table(
        *zip(arrivals, random.integers(1, 40, 60), random.integers(1, 9, 60), strict=True)
    )
    alone = run(prompts_only(requests), router="least_outstanding", replicas=2).recording
    pool = serve(requests, replicas=(2, 1), router="least_outstanding").handovers.prefill
    assert pool.outcome.finished_s.tolist() == alone.outcome.finished_s.tolist()
    assert pool.steps.start_s.tolist() == alone.steps.start_s.tolist()
    assert pool.steps.scheduled_tokens.tolist() == alone.steps.scheduled_tokens.tolist()


@pytest.mark.parametrize("output", [1, 2, 4, 9])
def test_the_slower_pool_sets_the_pace(output):
    # A burst: a prompt of 8 takes 3 s, an answer 1.25 s a token.  Two servers in a row pass
    # n jobs in the time of one through both and n - 1 through the slower.
    count, prompt_s, answer_s = 20, 3.0, 1.25 * output
    done = serve(table(*((0.0, 8, output),) * count), **ONE, **FREE)
    makespan_s = prompt_s + answer_s + (count - 1) * max(prompt_s, answer_s)
    assert done.outcome.finished_s.max() == makespan_s


def test_pools_side_by_side_carry_as_many_times_as_much():
    # Two prompts every 3 s, three answers every 5 s: decode is the slower.  Each decode replica
    # has 8 of the 24 requests, the last one its first when the second pair of prompts is done.
    done = serve(table(*((0.0, 8, 4),) * 24), replicas=(2, 3), **ONE, **FREE)
    assert done.outcome.finished_s.max() == 2 * 3.0 + 8 * 5.0


def test_steady_requests_never_wait_where_both_pools_keep_up():
    # Every 6 s a prompt (3 s), its transfer (1.25 s) and an answer (3.75 s), which overlaps the
    # next one's prompt but not its answer.
    done = serve(table(*((6.0 * k, 8, 3) for k in range(50))))
    ttft_s = done.outcome.first_token_s - done.outcome.arrival_s
    assert np.allclose(ttft_s, 3.0 + 1.25 + 1.25, atol=1e-9)


def test_two_exponential_servers_in_a_row_are_two_queues():
    """Burke (1956): what leaves M/M/1 is Poisson, so each queue is as if it were alone.

    Lengths are geometric, nearly exponential at means of 40 and 32 tokens.
    """
    rate, count, token_s = 0.5, 6_000, 0.025
    random = np.random.default_rng(11)
    requests = table(
        *zip(
            np.cumsum(random.exponential(1 / rate, count)),
            random.geometric(1 / 40, count),
            random.geometric(1 / 32, count),
            strict=True,
        )
    )
    done = serve(requests, step_s=(0.0, token_s, 0.0), **ONE, **FREE)
    outcome, moved = done.outcome, done.handovers
    prompt_s, answer_s = 40 * token_s, 32 * token_s
    in_prefill_s = float((moved.prefilled_s - outcome.arrival_s).mean())
    in_decode_s = float((outcome.finished_s - moved.prefilled_s).mean())
    assert in_prefill_s == pytest.approx(1 / (1 / prompt_s - rate), rel=0.08)
    assert in_decode_s == pytest.approx(1 / (1 / answer_s - rate), rel=0.08)


def test_an_endless_link_with_tokens_from_prefill_costs_first_tokens_nothing():
    random = np.random.default_rng(5)
    arrivals = np.cumsum(random.exponential(4.0, 40))
    requests = table(
        *zip(arrivals, random.integers(1, 30, 40), random.integers(2, 9, 40), strict=True)
    )
    done = serve(requests, prefill_token=True, **FREE)
    alone = run(prompts_only(requests)).recording
    assert done.outcome.first_token_s.tolist() == alone.outcome.first_token_s.tolist()
    moved = done.handovers
    assert (moved.arrived_s == moved.claimed_s).all()
    assert STEP_S[0] > 0  # the next token is a step later at the least
    assert (done.outcome.finished_s >= done.outcome.first_token_s + STEP_S[0]).all()
