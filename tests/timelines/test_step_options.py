"""Speculative decoding and structured output, by hand.

A step of m tokens lasts 1 + m/4 seconds; blocks hold 4 tokens.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table

from cost_models import StepCost, kernel
from simulator.engine.integrity import violations
from simulator.engine.speculation import uniform

TIMES = ("admitted_s", "first_token_s", "finished_s")
STEP = (
    "start_s", "end_s", "scheduled_tokens", "rejected_tokens", "sampled_tokens", "decode_seqs",
    "kv_blocks", "kv_tokens",
)  # fmt: skip


def both(requests, **limits):
    """The run, after checking that stepping and coasting agree and that it is sound."""
    stepped = run(requests, "step_options", events=True, **limits)
    coasted = run(requests, "step_options", **limits)
    assert digest(stepped.recording) == digest(coasted.recording)
    log = stepped.events
    assert not violations(stepped.fleet, stepped.recording, log, every_member_scheduled=False)
    return stepped


def test_drafts_that_are_always_right_come_together():
    done = both(
        table((0.0, 4, 6)), num_speculative_tokens=2, acceptance_rate=1.0, draft_cost=0.1
    )  # fmt: skip
    assert done.rows(*STEP) == [
        (0.0, 2.0, 4, 0, 1, 0, 1, 4),  # r0+4; r0:1
        # r0+1 and 2 drafts: 1 + 3/4 s, and for each draft a tenth of a decode's 1.25 s; they
        # are right: r0:2 to r0:4.  7 tokens will have KV, one of them now.
        (2.0, 4.0, 3, 0, 3, 1, 2, 5),
        # 2 of 3 are wanted: the second draft is not kept.
        (4.0, 6.0, 2, 1, 2, 1, 3, 8),
    ]
    assert done.gaps_s() == [0.0, 0.0, 0.0, 2.0, 2.0]


def test_drafts_that_are_never_right_cost_their_time():
    done = both(
        table((0.0, 4, 3)), num_speculative_tokens=2, acceptance_rate=0.0, draft_cost=0.1
    )  # fmt: skip
    assert done.rows(*STEP)[1:] == [(2.0, 4.0, 1, 2, 1, 1, 2, 5), (4.0, 6.0, 1, 2, 1, 1, 2, 6)]


def test_drafts_are_cut_to_the_budget():
    # Budget 4: r0 takes its token and 3 drafts; r1 waits.
    done = both(
        table((0.0, 4, 5), (1.0, 1, 1)), num_speculative_tokens=5, acceptance_rate=1.0,
        max_num_batched_tokens=4,
    )  # fmt: skip
    assert done.rows("start_s", "scheduled_tokens", "sampled_tokens", "waiting") == [
        (0.0, 4, 1, 0), (2.0, 4, 4, 1), (4.0, 1, 1, 0)
    ]  # fmt: skip


def test_a_victim_gives_the_tokens_of_its_drafts_back():
    # 6 blocks of 2; each decode brings 2 drafts, none right.  0: 4 + 4 tokens, 4 blocks.
    # 3: r0 needs 5 + 2 slots, 4 blocks; r1 finds none and preempts itself.
    done = both(
        table((0.0, 4, 3), (0.0, 4, 3)), num_speculative_tokens=2, acceptance_rate=0.0,
        block_size=2, usable_blocks=6, max_model_len=12,
    )  # fmt: skip
    assert done.rows("start_s", "end_s", "scheduled_tokens", "rejected_tokens", "preempted") == [
        (0.0, 3.0, 8, 0, 0),
        (3.0, 4.75, 1, 2, 1),
        (4.75, 6.5, 1, 2, 0),  # r0:3 ends
        (6.5, 8.75, 5, 0, 0),  # r1 computes 4 + 1 again
        (8.75, 10.5, 1, 2, 0),
    ]


@pytest.mark.parametrize(("rate", "drafts"), [(0.5, 3), (0.8, 4), (0.8, 1)])
def test_tokens_of_a_step_are_those_of_leviathan_et_al(rate, drafts):
    # Equation (1): (1 - a^(k + 1)) / (1 - a) tokens a step.
    done = run(
        table(*[(0.0, 4, 5_000)] * 4), "step_options", num_speculative_tokens=drafts,
        acceptance_rate=rate, max_num_batched_tokens=64,
    )  # fmt: skip
    steps = done.recording.steps
    decodes = steps.decode_seqs > 0
    a_step = steps.sampled_tokens[decodes].sum() / steps.decode_seqs[decodes].sum()
    expected = (1 - rate ** (drafts + 1)) / (1 - rate)
    # The standard deviation of one draw is at most k / 2.
    decoded = steps.decode_seqs.sum()
    assert a_step == pytest.approx(expected, abs=4 * drafts / 2 / np.sqrt(decoded))


def test_the_luck_of_a_request_is_its_own():
    made = fleet(table((0.0, 4, 6), (0.0, 4, 6)), luck=3)
    with np.errstate(over="ignore"):  # hashes wrap
        draws = np.array([[uniform(made.engine, i, k) for k in range(1000)] for i in (0, 1)])
    assert (draws >= 0.0).all()
    assert (draws < 1.0).all()
    assert np.abs(draws.mean(axis=1) - 0.5).max() < 4 / np.sqrt(12 * 1000)
    assert abs(np.corrcoef(draws)[0, 1]) < 4 / np.sqrt(1000)


def host_cost(gap_s):
    """1 s a step on the GPU; 1/2 s of the engine's own, and 1/4 s per sequence."""
    tables = StepCost.linear(1.0, 0.0).tables(64, 64)
    coef = tables.coef.copy()
    coef[[kernel.HOST_BASE, kernel.HOST_PER_SEQ, kernel.HOST_GAP]] = 0.5, 0.25, gap_s
    return tables._replace(coef=coef)


@pytest.mark.parametrize(
    ("depth", "gap_s", "share", "lengths_s"),
    [
        # One sequence: 1 + 3/4 s; each step samples, whose mask takes 1/8 s more.
        (1, 0.0, 0.0, [1.75, 1.75]),
        (1, 0.0, 1.0, [1.875, 1.875]),
        # Behind the GPU's second only the gap of 1/8 s shows, but for structured output.
        (2, 0.125, 0.0, [1.125, 1.125]),
        (2, 0.125, 1.0, [1.875, 1.875]),
    ],
)
def test_grammars_bring_the_host_back_to_the_critical_path(depth, gap_s, share, lengths_s):
    done = both(
        table((0.0, 4, 2)), cost=host_cost(gap_s), depth=depth, structured_share=share,
        grammar_s_per_seq=0.125,
    )  # fmt: skip
    assert [end - start for start, end in done.rows("start_s", "end_s")] == lengths_s


def test_a_chunk_that_samples_nothing_needs_no_mask():
    done = both(
        table((0.0, 8, 1)), cost=host_cost(0.0), structured_share=1.0, grammar_s_per_seq=0.125,
        max_num_batched_tokens=4,
    )  # fmt: skip
    assert [end - start for start, end in done.rows("start_s", "end_s")] == [1.75, 1.875]


def test_without_options_it_is_chunked_prefill():
    rng = np.random.default_rng(0)
    rows = zip(np.cumsum(rng.exponential(1.0, 40)), rng.integers(1, 20, 40),
               rng.integers(1, 12, 40), strict=True)  # fmt: skip
    requests = table(*rows)
    tight = {"usable_blocks": 12, "max_model_len": 32}
    plain, optional = (run(requests, p, **tight) for p in ("chunked_prefill", "step_options"))
    assert plain.recording.outcome.preemptions.sum() > 0
    assert digest(plain.recording) == digest(optional.recording)
