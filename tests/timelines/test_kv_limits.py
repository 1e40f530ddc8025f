"""Preemption, queue orders, contiguous reservation and admission limits, by hand.

A step of m tokens lasts 1 + m/4 seconds.
"""

from __future__ import annotations

import pytest
from engine_cases import digest, run, table

from simulator.recording import FINISHED, NEVER_FITS, PROMPT_TOO_LONG, QUEUE_FULL, REJECTED

TIMES = ("admitted_s", "first_token_s", "finished_s")
STEP = (
    "start_s", "end_s", "scheduled_tokens", "prefill_tokens", "decode_seqs", "running",
    "waiting", "kv_blocks", "kv_tokens", "preempted",
)  # fmt: skip


def both(requests, policy="chunked_prefill", **limits):
    """The run, after checking that stepping and coasting agree."""
    stepped = run(requests, policy, events=True, **limits)
    assert digest(stepped.recording) == digest(run(requests, policy, **limits).recording)
    return stepped


TIGHT = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}


def test_recompute_preempts_the_latest_admitted_under_fcfs():
    done = both(table((0.0, 4, 6), (0.0, 4, 5)), **TIGHT)
    assert done.rows(*STEP) == [
        (0.0, 3.0, 8, 8, 0, 2, 0, 4, 8, 0),  # r0+4, r1+4 -> 3 s; r0:1, r1:1
        (3.0, 4.5, 2, 0, 2, 2, 0, 6, 10, 0),  # 5 tokens each, 3 blocks each
        (4.5, 6.0, 2, 0, 2, 2, 0, 6, 12, 0),  # 6 tokens; r0:3, r1:3
        # 6: r0's 7th token needs a 4th block: r1 loses its 6 tokens and its seat.  Nobody
        # is admitted in a step that preempted.
        (6.0, 7.25, 1, 0, 1, 1, 1, 4, 7, 1),
        (7.25, 8.5, 1, 0, 1, 1, 1, 4, 8, 0),  # r1 wants 4 blocks for 7 tokens, 2 are free
        (8.5, 9.75, 1, 0, 1, 1, 1, 5, 9, 0),  # r0:6 ends
        (9.75, 12.5, 7, 7, 0, 1, 0, 4, 7, 0),  # r1 computes 4 + 3 tokens again; r1:4
        (12.5, 13.75, 1, 0, 1, 1, 0, 4, 8, 0),  # r1:5 ends
    ]
    assert done.times(*TIMES) == [(0.0, 3.0, 9.75), (0.0, 3.0, 13.75)]
    assert done.times("preemptions", "recomputed_tokens") == [(0, 0), (1, 6)]
    # r0: 1.5, 1.5, 1.25, 1.25, 1.25; r1: 1.5, 1.5, 6 -> 12.5, 1.25
    assert done.gaps_s() == [1.25, 1.25, 1.25, 1.25, 1.5, 1.5, 1.5, 1.5, 6.5]


@pytest.mark.parametrize("policy", ["continuous", "orca"])
def test_recompute_under_the_older_schedulers(policy):
    # Both decode in the steps of the case above, so nothing is different: r1 is computed
    # again when r0 has left, alone.
    done = both(table((0.0, 4, 6), (0.0, 4, 5)), policy, **TIGHT)
    assert done.times(*TIMES) == [(0.0, 3.0, 9.75), (0.0, 3.0, 13.75)]
    assert done.times("preemptions", "recomputed_tokens") == [(0, 0), (1, 6)]


def test_continuous_resumes_before_the_others_decode():
    # 7 usable blocks of 2.  0: r0+2, r1+6 -> 3 s.  3: r0 3 tokens, r1 7: 2 + 4 blocks.
    # 4.5: r0 4, r1 8, still 6.  6: r0's 5th token takes the 7th block; r1's 9th finds none
    # and r1, the last, preempts itself: 8 tokens lost; r0+1 -> 1.25 s; r0:4.
    # 7.25: r1 wants 5 blocks for 9 tokens, 4 are free; r0+1 -> 1.25 s, r0:5 ends.
    # 8.5: r1+9 -> 3.25 s; r1:4 ends.
    done = both(
        table((0.0, 2, 5), (0.0, 6, 4)), "continuous",
        block_size=2, usable_blocks=7, max_model_len=14,
    )  # fmt: skip
    assert done.times(*TIMES) == [(0.0, 3.0, 8.5), (0.0, 3.0, 11.75)]
    assert done.times("preemptions", "recomputed_tokens") == [(0, 0), (1, 8)]


def test_priority_preempts_the_least_urgent_and_serves_the_most_urgent_first():
    requests = table((0.0, 4, 6), (1.0, 4, 5), priority=[1, 0])
    done = both(requests, order="priority", **TIGHT)
    assert done.rows(*STEP) == [
        (0.0, 2.0, 4, 4, 0, 1, 0, 2, 4, 0),  # r0+4; r0:1
        (2.0, 4.25, 5, 4, 1, 2, 0, 5, 9, 0),  # r0+1, r1+4 -> 2.25 s; r0:2, r1:1
        (4.25, 5.75, 2, 0, 2, 2, 0, 6, 11, 0),  # 6 and 5 tokens, 3 blocks each
        # 5.75: r0 needs a 4th block and is itself the least urgent; the scan goes on: r1+1
        (5.75, 7.0, 1, 0, 1, 1, 1, 3, 6, 1),
        (7.0, 8.25, 1, 0, 1, 1, 1, 4, 7, 0),  # r0 wants 4 blocks for 7 tokens, 2 are free
        (8.25, 9.5, 1, 0, 1, 1, 1, 4, 8, 0),  # r1:5 ends
        (9.5, 12.25, 7, 7, 0, 1, 0, 4, 7, 0),  # r0+7 -> 2.75 s; r0:4
        (12.25, 13.5, 1, 0, 1, 1, 0, 4, 8, 0),
        (13.5, 14.75, 1, 0, 1, 1, 0, 5, 9, 0),  # r0:6 ends
    ]
    assert done.times(*TIMES) == [(0.0, 2.0, 14.75), (2.0, 4.25, 9.5)]
    assert done.times("preemptions", "recomputed_tokens") == [(1, 6), (0, 0)]


ONE_SEAT = ((0.0, 4, 2), (0.5, 4, 5), (1.0, 4, 1))


@pytest.mark.parametrize(
    ("order", "times"),
    [
        # r0 until 3.25; r1: 2 s + 4 x 1.25 s until 10.25; r2 until 12.25
        ("fcfs", [(0.0, 2.0, 3.25), (3.25, 5.25, 10.25), (10.25, 12.25, 12.25)]),
        # at 3.25 r2 is the shortest: until 5.25; r1 until 12.25
        ("sjf", [(0.0, 2.0, 3.25), (5.25, 7.25, 12.25), (3.25, 5.25, 5.25)]),
    ],
)
@pytest.mark.parametrize("policy", ["continuous", "orca", "chunked_prefill"])
def test_shortest_job_first_overtakes(policy, order, times):
    assert both(table(*ONE_SEAT), policy, order=order, max_num_seqs=1).times(*TIMES) == times


def test_priority_ties_go_by_arrival_and_then_by_name():
    # One seat, 2 s each.  r0 is first; then priority 0 ("b" before "c": names as strings,
    # equal arrivals), then the two of priority 1 by arrival.
    requests = table(
        (0.0, 4, 1), (0.5, 4, 1), (1.0, 4, 1), (1.0, 4, 1), (1.5, 4, 1),
        priority=[9, 1, 0, 0, 1], ids=("z", "y", "c", "b", "a"),
    )  # fmt: skip
    done = both(requests, order="priority", max_num_seqs=1)
    assert [first for (first,) in done.times("admitted_s")] == [0.0, 6.0, 4.0, 2.0, 8.0]


def test_sjf_forms_static_batches_of_the_shortest():
    # 0: r0 fills no batch and waits for nobody.  2: of the three that wait, the two shortest
    # outputs are r2 and r3.
    requests = table((0.0, 4, 1), (0.5, 4, 4), (1.0, 4, 1), (1.0, 4, 2))
    done = both(requests, "static", order="sjf", batch_size=2)
    # r2, r3: 8 tokens -> 3 s, then 2 rows -> 1.5 s; r1 from 6.5: 2 + 3 x 1.25 s
    assert done.times(*TIMES) == [
        (0.0, 2.0, 2.0), (6.5, 8.5, 12.25), (2.0, 5.0, 5.0), (2.0, 5.0, 6.5)
    ]  # fmt: skip


def test_static_waits_for_its_oldest_request_under_any_order():
    # r0 has waited its 2 seconds at 2, though r1, which came at 1, is the shorter.
    requests = table((0.0, 4, 4), (1.0, 4, 1))
    done = both(requests, "static", order="sjf", batch_size=3, max_wait_s=2.0)
    assert done.times("admitted_s") == [(2.0,), (2.0,)]


def test_contiguous_reservation_waits_for_a_gap_that_is_long_enough():
    # 7 blocks of 2.  r0, r1, r2 reserve 2 + 2 tokens: [0,2) [2,4) [4,6); r3 needs 4 blocks.
    # 0: 6 tokens -> 2.5 s; r0 and r2 end.  2.5: 5 blocks are free, as [0,2) and [4,7): no
    # gap of 4.  r1+1 -> 1.25 s, r1 ends.  3.75: r3+4 -> 2 s.
    rows = ((0.0, 2, 1), (0.0, 2, 2), (0.0, 2, 1), (0.0, 4, 1))
    requests = table(*rows, max_tokens=[2, 2, 2, 4])
    tight = {"block_size": 2, "usable_blocks": 7, "max_model_len": 14}
    done = both(requests, allocator="contiguous", **tight)
    assert done.rows("start_s", "end_s", "kv_blocks", "kv_tokens", "waiting") == [
        (0.0, 2.5, 6, 6, 1), (2.5, 3.75, 2, 3, 1), (3.75, 5.75, 4, 4, 0)
    ]  # fmt: skip
    # Of the 1, 5 and 3 free blocks, in one piece: [6,7), [4,7), [4,7).
    assert done.rows("largest_gap_blocks") == [(1,), (3,), (3,)]
    assert done.times(*TIMES) == [
        (0.0, 2.5, 2.5), (0.0, 2.5, 3.75), (0.0, 2.5, 2.5), (3.75, 5.75, 5.75)
    ]  # fmt: skip
    # Paged, the same pool admits all four at once: 1 + 1 + 1 + 2 blocks.
    paged = both(requests, allocator="paged", **tight)
    assert paged.rows("kv_blocks", "waiting")[0] == (5, 0)


def test_contiguous_reservation_takes_the_first_gap_that_fits():
    # 8 blocks of 2: r0 [0,2), r1 [2,4), r2 [4,5).  0: 4 tokens -> 2 s; r0 and r2 end.  2: r3
    # (2 blocks) comes into [0,2), so that r4 (4 blocks) finds [4,8).
    requests = table(
        (0.0, 2, 1), (0.0, 1, 3), (0.0, 1, 1), (1.0, 2, 1), (1.0, 5, 1), max_tokens=[2, 3, 1, 2, 3]
    )
    done = both(requests, allocator="contiguous", block_size=2, usable_blocks=8, max_model_len=16)
    assert done.times("admitted_s") == [(0.0,), (0.0,), (0.0,), (2.0,), (2.0,)]


def test_a_declared_maximum_ends_a_request():
    requests = table((0.0, 4, 9), max_tokens=[2])
    done = both(requests)
    assert done.times("generated_tokens", "finished_s") == [(2, 3.25)]
    assert done.recording.outcome.status.tolist() == [FINISHED]


def test_max_queue_refuses_who_finds_it_full():
    # One seat.  r1 waits from 0.5, so r2 finds a full queue; r3 comes when it is empty.
    requests = table((0.0, 4, 1), (0.5, 4, 1), (0.6, 4, 1), (2.5, 4, 1))
    done = both(requests, max_num_seqs=1, max_queue=1)
    assert done.recording.outcome.status.tolist() == [FINISHED, FINISHED, REJECTED, FINISHED]
    assert done.recording.outcome.reject_reason.tolist() == [0, 0, QUEUE_FULL, 0]
    assert [row[0] for row in done.times("finished_s")][::3] == [2.0, 6.0]


def test_max_queue_counts_only_who_waits_for_a_seat():
    # Two seats and no queue.  r0 and r1 sit down at 0 (8 tokens: 3 s); r2 comes while both
    # are taken, r3 when both are free again.
    requests = table((0.0, 4, 1), (0.0, 4, 1), (0.5, 4, 1), (3.5, 4, 1))
    done = both(requests, max_num_seqs=2, max_queue=0)
    assert done.recording.outcome.status.tolist() == [FINISHED, FINISHED, REJECTED, FINISHED]


@pytest.mark.parametrize("policy", ["continuous", "orca", "chunked_prefill", "static"])
def test_who_can_never_be_served_is_refused_at_arrival(policy):
    # max_model_len 12: a prompt of 12 leaves no room for a token; 11 does.
    requests = table((0.0, 12, 1), (0.0, 11, 5), (0.0, 4, 1))
    done = run(requests, policy, max_model_len=12, usable_blocks=3, batch_size=1)
    assert done.recording.outcome.reject_reason.tolist() == [PROMPT_TOO_LONG, 0, 0]
    # The second ends at max_model_len.
    assert done.recording.outcome.generated_tokens.tolist() == [0, 1, 1]


def test_a_reservation_larger_than_the_pool_is_refused_at_arrival():
    # 4 blocks of 2 hold 8 slots; 4 + 5 need 5 blocks, 4 + 4 need 4.
    requests = table((0.0, 4, 1), (0.0, 4, 1), max_tokens=[5, 4])
    done = run(requests, allocator="contiguous", block_size=2, usable_blocks=4)
    assert done.recording.outcome.reject_reason.tolist() == [NEVER_FITS, 0]


def test_horizon_shows_only_steps_that_have_ended():
    # r0: 2, 3.25, 4.5; at 4 the third token is under way.
    done = run(table((0.0, 4, 3), (5.0, 4, 1)), horizon_s=4.0)
    assert done.times("first_token_s", "generated_tokens")[0] == (2.0, 2)
    assert done.rows("end_s") == [(2.0,), (3.25,)]


def test_results_of_an_unfinished_static_batch_are_not_seen():
    done = run(table((0.0, 4, 5)), "static", batch_size=1, stream=0, horizon_s=4.0)
    ((first_token_s, finished_s),) = done.times("first_token_s", "finished_s")
    assert first_token_s != first_token_s
    assert finished_s != finished_s
