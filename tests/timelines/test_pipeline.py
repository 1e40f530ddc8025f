"""Several steps under way in the stages of a pipeline, worked out by hand.

A step of m tokens lasts 1 + m/4 seconds over all stages.  In the comments, `r0+4` is 4 tokens
of r0, `r0:1` its first output token, and the times are those on each stage.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import run, table

from cost_models import StepCost, kernel

TIMES = ("first_token_s", "finished_s")
STEP = ("start_s", "end_s", "gpu_s", "overlapped_s", "scheduled_tokens")
HALVES = {"stage_shares": (0.5, 0.5), "depth": 2, "one_in_flight": 1, "coast": 0}
TWO = ((0.0, 4, 3), (0.0, 4, 2))


def test_a_second_step_follows_the_first_through_two_stages():
    done = run(table(*TWO), max_num_batched_tokens=4, **HALVES)
    assert done.rows(*STEP) == [
        # 0: r0+4, 2 s: 0-1, 1-2; r0:1
        (0.0, 2.0, 2.0, 0.0, 4),
        # 0: r1+4, since r0's token is not known yet: 1-2, 2-3; r1:1
        (2.0, 3.0, 1.0, 1.0, 4),
        # 2: r0+1, 1.25 s: 2-2.625, then it waits for the second stage: 3-3.625; r0:2
        (3.0, 3.625, 0.625, 0.625, 1),
        # 3: r1+1: 3-3.625, 3.625-4.25; r1:2 ends
        (3.625, 4.25, 0.625, 0.625, 1),
        # 3.625: r0+1: 3.625-4.25, 4.25-4.875; r0:3 ends
        (4.25, 4.875, 0.625, 0.625, 1),
    ]
    assert done.times(*TIMES) == [(2.0, 4.875), (3.0, 4.25)]
    assert done.gaps_s() == [1.25, 1.25, 1.625]


def test_requests_of_one_step_leave_the_other_stage_empty():
    """Both fit in the first step, so that there is never a second one to follow it."""
    done = run(table(*TWO), max_num_batched_tokens=8, **HALVES)
    alone = run(table(*TWO), max_num_batched_tokens=8)
    assert done.rows(*STEP) == alone.rows(*STEP)
    assert done.times(*TIMES) == alone.times(*TIMES) == [(3.0, 5.75), (3.0, 4.5)]


def test_the_slowest_stage_sets_the_pace():
    # r0+4: 0-0.5, 0.5-2; r1+4: 0.5-1, 2-3.5.
    uneven = HALVES | {"stage_shares": (0.25, 0.75)}
    done = run(table((0.0, 4, 1), (0.0, 4, 1)), max_num_batched_tokens=4, **uneven)
    assert done.times(*TIMES) == [(2.0, 2.0), (3.5, 3.5)]


def test_chunks_of_a_prompt_follow_each_other():
    # r0+4, r0+4, r0+4 of a prompt of 12 through three stages of 2/3 s each.
    thirds = {"stage_shares": (1 / 3,) * 3, "depth": 3, "one_in_flight": 1, "coast": 0}
    done = run(table((0.0, 12, 1)), max_num_batched_tokens=4, **thirds)
    ends = [end for (end,) in done.rows("end_s")]
    assert ends == pytest.approx([2.0, 2.0 + 2 / 3, 2.0 + 4 / 3])
    assert done.times("first_token_s")[0][0] == pytest.approx(2.0 + 4 / 3)


def test_the_last_stage_has_the_logits_beside_its_layers():
    tables = StepCost.linear(1.0, 0.25).tables(64, 64)
    tables = tables._replace(logits_s=np.full(65, 0.5))
    # 1 + 4/4 + 0.5 s: r0 0-1, 1-2.5; r1 1-2, 2.5-4.
    done = run(table((0.0, 4, 1), (0.0, 4, 1)), max_num_batched_tokens=4, cost=tables, **HALVES)
    assert done.times(*TIMES) == [(2.5, 2.5), (4.0, 4.0)]


def test_the_engines_own_code_works_beside_the_stages():
    tables = StepCost.linear(1.0, 0.25).tables(64, 64)
    tables.coef[kernel.HOST_BASE] = 0.5
    done = run(table((0.0, 4, 1), (0.0, 4, 1)), max_num_batched_tokens=4, cost=tables, **HALVES)
    assert done.rows("start_s", "end_s", "gpu_s", "host_s", "overlapped_s") == [
        (0.0, 2.5, 2.0, 0.5, 0.0),  # sent at 0.5: 0.5-1.5, 1.5-2.5
        (2.5, 3.5, 1.0, 0.0, 1.0),  # composed at 0.5, sent at 1: 1.5-2.5, 2.5-3.5
    ]


def test_a_full_pipeline_serves_as_many_as_its_stages_allow():
    """Decodes of four groups of one: a step of 1 token leaves a stage each 0.3125 s."""
    quarters = {"stage_shares": (0.25,) * 4, "depth": 4, "one_in_flight": 1, "coast": 0}
    requests = table(*[(0.0, 1, 200)] * 4)
    done = run(requests, max_num_batched_tokens=1, **quarters)
    ends = np.array([end for (end,) in done.rows("end_s")])
    np.testing.assert_allclose(np.diff(ends), 0.3125)
    assert len(ends) == 800
    # Each waits for its own token: a pass of four stages from one to the next.
    np.testing.assert_allclose(done.gaps_s(), 1.25)
