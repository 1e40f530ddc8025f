"""The same three requests under every scheduler, worked out by hand.

A step of m tokens lasts 1 + m/4 seconds; blocks hold 4 tokens.  In the comments, `r0+8` is
8 tokens of r0, `r1:2` the second output token of r1.  Every run is made twice, with the
event log (which steps one by one) and without (which may coast), and must be the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import digest, run, table

from cost_models import StepCost, kernel

STEP = (
    "start_s", "end_s", "scheduled_tokens", "padding_tokens", "bubble_seqs", "decode_seqs",
    "prefill_seqs", "prefill_tokens", "sampled_tokens", "running", "waiting", "kv_blocks",
    "kv_tokens", "preempted",
)  # fmt: skip
TIMES = ("admitted_s", "first_token_s", "finished_s")

THREE = ((0.0, 4, 3), (1.0, 8, 2), (1.5, 4, 1))


def both(requests, policy, **limits):
    """The run, after checking that stepping and coasting agree."""
    stepped = run(requests, policy, events=True, **limits)
    assert digest(stepped.recording) == digest(run(requests, policy, **limits).recording)
    return stepped


def test_continuous_stalls_decodes_while_prompts_are_computed():
    done = both(table(*THREE), "continuous", max_num_seqs=2)
    assert done.rows(*STEP) == [
        # 0: r0+4 -> 1 + 4/4 = 2 s; r0:1
        (0.0, 2.0, 4, 0, 0, 0, 1, 4, 1, 1, 0, 1, 4, 0),
        # 2: r1+8 alone, r0 stalls -> 3 s; r1:1; r2 has no seat; blocks 1 + 2
        (2.0, 5.0, 8, 0, 0, 0, 1, 8, 1, 2, 1, 3, 12, 0),
        # 5: nobody to admit: r0+1, r1+1 -> 1.5 s; r0:2, r1:2 ends; r0 has 5 tokens, r1 9
        (5.0, 6.5, 2, 0, 0, 2, 0, 0, 2, 2, 1, 5, 14, 0),
        # 6.5: r2+4, r0 stalls again -> 2 s; r2:1 ends
        (6.5, 8.5, 4, 0, 0, 0, 1, 4, 1, 2, 0, 3, 9, 0),
        # 8.5: r0+1 -> 1.25 s; r0:3 ends
        (8.5, 9.75, 1, 0, 0, 1, 0, 0, 1, 1, 0, 2, 6, 0),
    ]
    assert done.times(*TIMES) == [(0.0, 2.0, 9.75), (2.0, 5.0, 6.5), (6.5, 8.5, 8.5)]
    # r0: 2 -> 6.5 -> 9.75; r1: 5 -> 6.5.  The stalls are gaps of 4.5 and 3.25 s.
    assert done.gaps_s() == [1.5, 3.25, 4.5]
    # Contexts of the decodes, the new token counted: 5 + 9, then 6.
    assert done.recording.steps.context_tokens.tolist() == [0, 0, 14, 0, 6]


def test_orca_mixes_whole_prompts_with_decodes():
    done = both(table(*THREE), "orca", max_num_seqs=2)
    assert done.rows(*STEP) == [
        # 0: r0+4 -> 2 s; r0:1
        (0.0, 2.0, 4, 0, 0, 0, 1, 4, 1, 1, 0, 1, 4, 0),
        # 2: r0+1, r1+8 -> 1 + 9/4 = 3.25 s; r0:2, r1:1; r2 has no seat
        (2.0, 5.25, 9, 0, 0, 1, 1, 8, 2, 2, 1, 4, 13, 0),
        # 5.25: r0+1, r1+1 -> 1.5 s; r0:3 ends, r1:2 ends
        (5.25, 6.75, 2, 0, 0, 2, 0, 0, 2, 2, 1, 5, 15, 0),
        # 6.75: r2+4 -> 2 s; r2:1 ends
        (6.75, 8.75, 4, 0, 0, 0, 1, 4, 1, 1, 0, 1, 4, 0),
    ]
    assert done.times(*TIMES) == [(0.0, 2.0, 6.75), (2.0, 5.25, 6.75), (6.75, 8.75, 8.75)]
    assert done.gaps_s() == [1.5, 1.5, 3.25]


def test_orca_never_cuts_a_prompt_to_what_is_left_of_the_budget():
    # Budget 8: beside r0's decode 7 are left, so r1 with 8 waits, and r2 behind it too.
    done = both(table(*THREE), "orca", max_num_batched_tokens=8)
    assert done.rows("start_s", "end_s", "scheduled_tokens", "running", "waiting") == [
        (0.0, 2.0, 4, 1, 0),  # r0+4; r0:1
        (2.0, 3.25, 1, 1, 2),  # r0+1; r0:2
        (3.25, 4.5, 1, 1, 2),  # r0+1; r0:3 ends
        (4.5, 7.5, 8, 1, 1),  # r1+8 -> 3 s; r1:1; no budget is left for r2
        (7.5, 9.75, 5, 2, 0),  # r1+1, r2+4 -> 2.25 s; r1:2 ends, r2:1 ends
    ]
    assert done.times(*TIMES) == [(0.0, 2.0, 4.5), (4.5, 7.5, 9.75), (7.5, 9.75, 9.75)]


def test_chunked_prefill_fills_the_budget_beside_the_decodes():
    # Budget 6, r1 of 10 tokens; r3 comes to an idle engine.
    requests = table((0.0, 4, 3), (1.0, 10, 2), (1.5, 4, 1), (20.0, 1, 1))
    done = both(requests, "chunked_prefill", max_num_batched_tokens=6)
    assert done.rows(*STEP) == [
        # 0: r0+4 -> 2 s; r0:1
        (0.0, 2.0, 4, 0, 0, 0, 1, 4, 1, 1, 0, 1, 4, 0),
        # 2: r0+1, r1+5 -> 2.5 s; r0:2; nothing is left for r2
        (2.0, 4.5, 6, 0, 0, 1, 1, 5, 1, 2, 1, 4, 10, 0),
        # 4.5: r0+1, r1+5 -> 2.5 s; r0:3 ends, r1:1 with its last chunk
        (4.5, 7.0, 6, 0, 0, 1, 1, 5, 2, 2, 1, 5, 16, 0),
        # 7: r1+1, r2+4 -> 2.25 s; r1:2 ends, r2:1 ends
        (7.0, 9.25, 5, 0, 0, 1, 1, 4, 2, 2, 0, 4, 15, 0),
        # 20: r3+1 -> 1.25 s
        (20.0, 21.25, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 0),
    ]
    assert done.times(*TIMES) == [
        (0.0, 2.0, 7.0), (2.0, 7.0, 9.25), (7.0, 9.25, 9.25), (20.0, 21.25, 21.25)
    ]  # fmt: skip
    assert done.gaps_s() == [2.25, 2.5, 2.5]


def test_chunked_prefill_without_chunking_stops_at_a_prompt_over_the_budget():
    # Budget 8.  At 2: r0+1, then r1 wants 8 of 7: admission stops, r2 waits behind it.
    done = both(table(*THREE), "chunked_prefill", max_num_batched_tokens=8, chunked_prefill=0)
    assert done.times(*TIMES) == [(0.0, 2.0, 4.5), (4.5, 7.5, 9.75), (7.5, 9.75, 9.75)]


def test_long_prefill_cap_holds_only_in_company():
    # Cap 2, budget 16.  0: r0 is alone, r0+6 -> 2.5 s.  2.5: r0+1, r1+2 -> 1.75 s.
    # 4.25: r0+1 (ends), r1+2 -> 1.75 s.  6: r1 is alone: its last 4 at once -> 2 s.
    requests = table((0.0, 6, 3), (1.0, 8, 1))
    done = both(requests, "chunked_prefill", long_prefill_token_threshold=2)
    assert done.rows("start_s", "scheduled_tokens", "prefill_tokens") == [
        (0.0, 6, 6), (2.5, 3, 2), (4.25, 3, 2), (6.0, 4, 4)
    ]  # fmt: skip
    assert done.times(*TIMES) == [(0.0, 2.5, 6.0), (2.5, 8.0, 8.0)]


STATIC = ((0.0, 4, 3), (1.0, 2, 1), (2.0, 4, 2), (20.0, 4, 1))
STATIC_STEPS = [
    # 0: r0 alone may wait until 3.  1: r1 fills the batch: 2 rows of 4 -> 3 s, 2 padded;
    # KV for 4 + 3 tokens, 2 blocks a row; r0:1, r1:1 is r1's last
    (1.0, 4.0, 6, 2, 0, 0, 2, 6, 2, 2, 0, 4, 6, 0),
    # 4: both rows are computed -> 1.5 s; r1's is a bubble; r2 waits, nobody joins
    (4.0, 5.5, 1, 0, 1, 1, 0, 0, 1, 2, 1, 4, 7, 0),
    (5.5, 7.0, 1, 0, 1, 1, 0, 0, 1, 2, 1, 4, 8, 0),
    # 7: r2 has waited 5 of at most 3 seconds: alone -> 2 s, then 1.25 s
    (7.0, 9.0, 4, 0, 0, 0, 1, 4, 1, 1, 0, 2, 4, 0),
    (9.0, 10.25, 1, 0, 0, 1, 0, 0, 1, 1, 0, 2, 5, 0),
    # 20: r3 comes, waits its 3 seconds in vain -> 2 s
    (23.0, 25.0, 4, 0, 0, 0, 1, 4, 1, 1, 0, 2, 4, 0),
]


@pytest.mark.parametrize(
    ("stream", "times", "gaps_s"),
    [
        (
            1,
            [(1.0, 4.0, 7.0), (1.0, 4.0, 4.0), (7.0, 9.0, 10.25), (23.0, 25.0, 25.0)],
            [1.25, 1.5, 1.5],
        ),
        # Results come back with the batch, so the first token is the last and nobody sees gaps.
        (
            0,
            [(1.0, 7.0, 7.0), (1.0, 7.0, 7.0), (7.0, 10.25, 10.25), (23.0, 25.0, 25.0)],
            [],
        ),
    ],
)  # fmt: skip
def test_static_pads_prompts_and_holds_finished_rows(stream, times, gaps_s):
    done = both(table(*STATIC), "static", batch_size=2, max_wait_s=3.0, stream=stream)
    assert done.rows(*STEP) == STATIC_STEPS
    assert done.times(*TIMES) == times
    assert done.gaps_s() == gaps_s


def test_static_prices_every_row_at_the_padded_length():
    # 1 s per token of the mean context of who decodes, 1 s per query-key pair of a prompt.
    tables = StepCost.linear(1.0, 0.0).tables(64, 64)
    coef = tables.coef.copy()
    coef[kernel.PREFILL_PER_AREA] = 1.0
    attention_s = np.outer(np.ones(5), [*2.0 ** np.arange(9), 0.0])
    cost = tables._replace(decode_attention_s=attention_s, coef=coef)
    # 0: 2 rows padded to 4: 1 + 2·4·4/2 = 17 s; r0 ends.  17: r1's context counts as 4 + 1,
    # though it has 2 + 1 tokens: 1 + 5 s.  23: 1 + 6 s.
    done = both(table((0.0, 4, 1), (0.0, 2, 3)), "static", batch_size=2, cost=cost)
    assert done.rows("start_s", "end_s") == [(0.0, 17.0), (17.0, 23.0), (23.0, 30.0)]


def test_static_prices_finished_rows_too():
    # 1 s per sequence: 2 rows in both steps, though r0 ends with the first.
    requests = table((0.0, 4, 1), (0.0, 2, 2))
    done = both(requests, "static", batch_size=2, step_s=(0.0, 0.0, 1.0))
    assert done.rows("start_s", "end_s") == [(0.0, 2.0), (2.0, 4.0)]


def test_static_batch_is_cut_to_the_kv_that_its_padded_rows_need():
    # Rows of 4 + 3 tokens need 2 blocks each; of 3 usable blocks one row remains.
    requests = table((0.0, 4, 3), (0.0, 2, 1))
    done = both(requests, "static", batch_size=2, usable_blocks=3)
    assert done.times(*TIMES) == [(0.0, 2.0, 4.5), (4.5, 6.0, 6.0)]


SIX = ((0.0, 4, 1), (0.5, 4, 1), (0.75, 4, 1), (1.5, 4, 1), (1.75, 4, 1), (2.0, 4, 1))


@pytest.mark.parametrize(
    ("preferred", "max_wait_s", "starts"),
    [
        # A batch of k takes 1 + k s.  None preferred: at 3 r0 has waited long enough and all
        # six go.
        ((), 3.0, [(3.0, 6)]),
        # At 0.5 two are there: 3 s.  At 3.5 four are: two more than preferred must wait for
        # nobody, and 4 is the largest preferred size.
        ((2, 4), 3.0, [(0.5, 2), (3.5, 4)]),
        # At 3.5 four are there: two of them, r2 having waited 2.75 s; at 6.5 the others, r4
        # having waited 4.75 s.
        ((2,), 3.0, [(0.5, 2), (3.5, 2), (6.5, 2)]),
        # With a shorter patience r2 is overdue at 3.5, and all go whatever is preferred.
        ((2,), 2.5, [(0.5, 2), (3.5, 4)]),
        # No wait at all: r0 alone at 0, 2 s.  At 2 five are there: the preferred 4, 5 s;
        # at 7 the one that is left.
        ((4,), 0.0, [(0.0, 1), (2.0, 4), (7.0, 1)]),
    ],
)  # fmt: skip
def test_the_batcher_sends_the_largest_preferred_size_that_it_has(preferred, max_wait_s, starts):
    done = both(
        table(*SIX), "static", batch_size=8, max_num_seqs=8, max_wait_s=max_wait_s,
        preferred_sizes=preferred,
    )  # fmt: skip
    assert done.rows("start_s", "running") == starts
