"""What a long prompt does to running streams, and what chunks make of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from engine_cases import run, table

from cost_models import StepCost
from simulator import simulate

P, STREAMS = 4096, 8


def test_a_whole_prompt_stalls_a_stream_by_exactly_its_step():
    # Steps of 1 + m/4 s.  r0 decodes in steps of 1.25 s; r1's 40 tokens take 11 s between.
    done = run(table((0.0, 4, 6), (3.0, 40, 1)), "continuous", max_num_batched_tokens=40)
    assert done.gaps_s() == [1.25] * 4 + [11 + 1.25]


def test_beside_decodes_the_prompt_lengthens_their_step():
    done = run(table((0.0, 4, 6), (3.0, 40, 1)), "orca", max_num_batched_tokens=64)
    assert done.gaps_s() == [1.25] * 4 + [1 + 41 / 4]


def test_chunks_bound_every_gap_by_the_step_of_the_budget():
    # Budget 9: r0 and chunks of 8, five times 1 + 9/4 s.
    done = run(table((0.0, 4, 9), (3.0, 40, 1)), "chunked_prefill", max_num_batched_tokens=9)
    assert done.gaps_s() == [1.25] * 3 + [3.25] * 5


@pytest.fixture(scope="module")
def stalled(describe, tmp_path_factory):
    """Eight streams on a 70B model over four H100s, and one long prompt after 5 seconds."""
    trace = tmp_path_factory.mktemp("trace") / "streams.csv"
    rows = [*["0,200,600"] * STREAMS, f"5,{P},2"]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n")

    def made(policy, **scheduler):
        return simulate(
            describe(
                {"trace": {"path": str(trace)}},
                model="llama-3.1-70b",
                cluster={"tensor_parallel": 4},
                scheduler={"policy": policy, **scheduler},
            )
        )

    return made


@pytest.fixture(scope="module")
def cost():
    return StepCost.load("llama-3.1-70b", gpu="h100_sxm", tp=4, engine_version="0.12")


def test_4096_tokens_on_70b_over_four_h100_add_100_to_300_ms(stalled, cost):
    result = stalled("continuous")
    steps, gaps = result.recording.steps, result.recording.gaps
    (at,) = np.flatnonzero(steps.prefill_tokens == P)
    priced = cost.step(prefills=[(P, 0)])
    assert (steps.gpu_s[at], steps.host_s[at]) == (priced.gpu_s, priced.host_s)
    assert steps.end_s[at] == steps.start_s[at] + priced.total_s
    # The streams' gap: the prefill step and their next decode, to the bit.
    assert gaps.gap_s.max() == steps.end_s[at + 1] - steps.end_s[at - 1]
    assert gaps.count[gaps.gap_s == gaps.gap_s.max()].sum() == STREAMS
    assert 0.1 < priced.total_s < 0.3


def test_chunks_of_at_most_512_tokens_remove_the_stall(stalled, cost):
    result = stalled("chunked_prefill", max_num_batched_tokens=512, max_num_seqs=256)
    running = result.recording.gaps
    chunk = 512 - STREAMS
    last = cost.step([1000] * STREAMS, [(chunk, P - chunk)]).total_s
    whole = cost.step(prefills=[(P, 0)]).total_s
    assert running.gap_s.max() < 1.05 * last < whole / 4


@pytest.mark.parametrize(("chunk", "streams"), [(8, 1), (16, 3), (64, 3)])
def test_ttft_is_the_number_of_chunks_times_the_step(chunk, streams):
    # The prompt arrives with the end of a step: no wait.  Steps of 1 + (chunk + streams)/4 s.
    prompt, first_s, decode_s = 64, 1 + streams / 4, 1 + streams / 4
    arrival_s = first_s + 2 * decode_s
    requests = table(*[(0.0, 1, 99)] * streams, (arrival_s, prompt, 1))
    done = run(requests, max_num_batched_tokens=chunk + streams)
    step_s = 1 + (chunk + streams) / 4
    first_token_s = done.times("first_token_s")[-1][0]
    assert first_token_s - arrival_s == math.ceil(prompt / chunk) * step_s


def test_the_last_chunk_takes_its_own_length():
    # 20 tokens in chunks of 8, 8 and 4, each beside one decode.
    done = run(table((0.0, 1, 99), (1.25, 20, 1)), max_num_batched_tokens=9)
    assert done.times("first_token_s")[-1][0] - 1.25 == 2 * (1 + 9 / 4) + (1 + 5 / 4)


def test_the_largest_chunk_under_an_itl_objective_is_its_closed_form():
    # 1 + (chunk + 3)/4 <= 6 s for chunks up to 17.
    itl_s, streams = 6.0, 3
    chunk = int((itl_s - 1) * 4) - streams
    assert chunk == 17

    def longest_gap_s(budget):
        requests = table(*[(0.0, 1, 99)] * streams, (2.0, 200, 1))
        return run(requests, max_num_batched_tokens=budget).gaps_s()[-1]

    assert longest_gap_s(chunk + streams) <= itl_s < longest_gap_s(chunk + 1 + streams)
