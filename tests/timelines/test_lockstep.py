"""Engines that share experts step together, worked out by hand.

What an engine does for itself takes 1 + m/4 seconds for its m tokens; what two do together, a
second for each of up to two tokens of the one with most (a graph pads both), else a quarter of
a second for each token of both.
"""

from __future__ import annotations

import numpy as np
from engine_cases import fleet, run, table

from cost_models import StepCost, kernel
from simulator.engine.state import Lockstep

TIMES = ("first_token_s", "finished_s")
STEP = ("replica", "start_s", "end_s", "gpu_s", "scheduled_tokens")


def two(**more):
    together = Lockstep(even_s=np.array([0.0, 1.0, 2.0]), total_s=np.arange(33) * 0.25)
    return {"replicas": 2, "lockstep": together, "group_size": 2, "coast": 0} | more


def test_a_step_takes_as_long_as_the_longest_part_and_the_experts():
    # Round robin: r0 to the first engine, r1 to the second.
    done = run(table((0.0, 4, 2), (0.0, 8, 3)), **two())
    assert done.rows(*STEP) == [
        # 0: r0+4 and r1+8: 1 + 8/4 + 12/4 = 6 s for both; r0:1, r1:1
        (0, 0.0, 6.0, 6.0, 4),
        # 6: a token each: 1.25 + 1 = 2.25 s; r0:2 ends, r1:2
        (0, 6.0, 8.25, 2.25, 1),
        (1, 0.0, 6.0, 6.0, 8),
        (1, 6.0, 8.25, 2.25, 1),
        # 8.25: r1 alone; the first engine's pass is empty: 2.25 s; r1:3 ends
        (1, 8.25, 10.5, 2.25, 1),
    ]
    assert done.times(*TIMES) == [(6.0, 8.25), (6.0, 10.5)]


def test_an_engine_without_requests_joins_when_the_others_begin_a_step():
    # r0 at 0 to the first engine: 4 tokens: 1 + 1 + 1 = 3 s.  r1 comes to the second at 1 and
    # waits for the end of the empty pass: 3: r0+1 and r1+4: 2 + 5/4 = 3.25 s.
    done = run(table((0.0, 4, 2), (1.0, 4, 1)), **two())
    assert done.times("admitted_s", *TIMES) == [(0.0, 3.0, 6.25), (3.0, 6.25, 6.25)]


def test_groups_do_not_wait_for_each_other():
    requests = table((0.0, 4, 2), (0.0, 8, 3), (0.5, 4, 1))
    done = run(requests, **two(replicas=4))
    # The third engine is of the second group: 1 + 4/4 + 4/4 = 3 s.
    assert done.times(*TIMES)[2] == (3.5, 3.5)
    assert done.times(*TIMES)[:2] == [(6.0, 8.25), (6.0, 10.5)]


def test_asynchronous_engines_compose_the_next_step_while_one_runs():
    done = run(table((0.0, 4, 3), (0.0, 8, 3)), **two(depth=2))
    # The next step begins where the one before ends, with tokens that are not known yet.
    assert done.rows(*STEP)[:3] == [
        (0, 0.0, 6.0, 6.0, 4),
        (0, 6.0, 8.25, 2.25, 1),
        (0, 8.25, 10.5, 2.25, 1),
    ]
    assert done.times(*TIMES) == [(6.0, 10.5), (6.0, 10.5)]
    # r2 comes at 1 to an idle engine of the group: two empty passes are under way already.
    late = run(table((0.0, 4, 9), (1.0, 4, 1)), **two(depth=2))
    assert late.times("admitted_s", "first_token_s")[1] == (3.0, 8.5)


def test_the_slowest_hosts_time_counts_for_all():
    tables = StepCost.linear(1.0, 0.25).tables(64, 64)
    tables.coef[kernel.HOST_PER_SEQ] = 0.5
    # The first engine has two sequences: 1 s of host time for both engines.
    requests = table((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    done = run(requests, **two(cost=tables))
    assert done.times(*TIMES) == [(1.0 + 2.0 + 3.0 + 1.0,) * 2] * 3


def test_a_group_of_one_with_nothing_in_common_is_an_engine_alone():
    nothing = Lockstep(even_s=np.zeros(1), total_s=np.zeros(65))
    rng = np.random.default_rng(3)
    rows = [(float(t), int(p), int(o)) for t, p, o in zip(
        np.cumsum(rng.exponential(2.0, 60)), rng.integers(1, 30, 60), rng.integers(1, 9, 60),
        strict=True,
    )]  # fmt: skip
    for depth in (1, 2):
        alone = run(table(*rows), depth=depth, usable_blocks=30, replicas=2)
        grouped = run(
            table(*rows), depth=depth, usable_blocks=30, replicas=2, group_size=1, lockstep=nothing
        )
        assert grouped.times("admitted_s", *TIMES) == alone.times("admitted_s", *TIMES)
        assert grouped.rows(*STEP) == alone.rows(*STEP)
    assert fleet(table(*rows)).engine.lockstep.even_s.shape == (0,)
