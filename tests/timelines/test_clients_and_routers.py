"""Closed loops and several replicas, by hand.  A step of m tokens lasts 1 + m/4 seconds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table

TIMES = ("arrival_s", "admitted_s", "finished_s")


def test_closed_loop_sends_the_next_when_a_request_ends():
    # Two seats at the client.  0: r0+4, r1+4 -> 3 s; r0:1 ends, r2 is sent.
    # 3: r1+1, r2+4 -> 2.25 s; r1:2, r2:1 ends, r3 is sent.  5.25: r1+1, r3+4 -> 2.25 s.
    requests = table((0.0, 4, 1), (0.0, 4, 3), (0.0, 4, 1), (0.0, 4, 1), max_concurrency=2)
    done = run(requests)
    assert done.times(*TIMES) == [
        (0.0, 0.0, 3.0), (0.0, 0.0, 7.5), (3.0, 3.0, 5.25), (5.25, 5.25, 7.5)
    ]  # fmt: skip
    assert done.rows("start_s", "scheduled_tokens", "waiting") == [
        (0.0, 8, 0), (3.0, 5, 0), (5.25, 5, 0)
    ]  # fmt: skip


def test_closed_loop_waits_for_the_arrival_and_for_the_seat():
    # r1 comes at 5, when the seat has been free since 2; r2 comes at 5.5 and is sent at 7.
    requests = table((0.0, 4, 1), (5.0, 4, 1), (5.5, 4, 1), max_concurrency=1)
    assert run(requests).times(*TIMES) == [(0.0, 0.0, 2.0), (5.0, 5.0, 7.0), (7.0, 7.0, 9.0)]


def test_closed_loop_seat_is_free_again_after_a_refusal():
    # One seat at the replica, one may wait, three at the client.  r1 and r2 arrive during
    # r0's step and are looked at when it ends, at 2: r1 waits, r2 is refused.  By then r0
    # has ended too and r3 is sent: r1 gets r0's seat, so that r3 may wait, until 4; r4 comes
    # to an idle replica.
    rows = ((0.0, 4, 1), (0.5, 4, 1), (0.5, 4, 1), (0.5, 4, 1), (9.0, 4, 1))
    done = run(table(*rows, max_concurrency=3), max_num_seqs=1, max_queue=1)
    assert done.recording.outcome.status.tolist() == [1, 1, 2, 1, 1]
    assert [row[-1] for row in done.times(*TIMES)][3:] == [6.0, 11.0]


def test_closed_loop_counts_seats_over_all_replicas():
    # Two replicas, two seats.  r0 on replica 0 until 2; r1 on replica 1 until 4.5; r2 is
    # sent at 2 to replica 0 (round robin), ends at 4; r3 at 4 to replica 1, beside r1.
    requests = table((0.0, 4, 1), (0.0, 4, 3), (0.0, 4, 1), (0.0, 4, 1), max_concurrency=2)
    done = run(requests, replicas=2)
    # r1: 2, 3.25, 4.5.  4: r3 waits for r1's step to end: 4.5 -> 6.5.
    assert done.times("replica", *TIMES) == [
        (0, 0.0, 0.0, 2.0), (1, 0.0, 0.0, 4.5), (0, 2.0, 2.0, 4.0), (1, 4.0, 4.5, 6.5)
    ]  # fmt: skip


def test_round_robin_does_not_look():
    # Replica 0 is busy with r0 until 11; r2 goes there all the same.
    rows = ((0.0, 4, 8), (0.0, 4, 1), (5.0, 4, 1), (6.0, 4, 1))
    done = run(table(*rows), replicas=2, max_num_seqs=1)
    # r0: 2 + 7 x 1.25 = 10.75
    assert done.times("replica", *TIMES) == [
        (0, 0.0, 0.0, 10.75), (1, 0.0, 0.0, 2.0), (0, 5.0, 10.75, 12.75), (1, 6.0, 6.0, 8.0)
    ]  # fmt: skip


def test_least_outstanding_counts_running_and_waiting():
    # Among equals the turn goes round: r0 -> 0, r1 -> 1; r2 (1, 1) -> 0; r3 (2, 1) -> 1;
    # r1 ends at 2, r3 at 4; r4 comes at 5 (r0, r2 there; nobody here) -> 1.
    rows = ((0.0, 4, 8), (0.0, 4, 1), (0.5, 4, 1), (0.5, 4, 1), (5.0, 4, 1))
    done = run(table(*rows), replicas=2, max_num_seqs=1, router="least_outstanding")
    assert done.times("replica", *TIMES) == [
        (0, 0.0, 0.0, 10.75), (1, 0.0, 0.0, 2.0), (0, 0.5, 10.75, 12.75), (1, 0.5, 2.0, 4.0),
        (1, 5.0, 5.0, 7.0),
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["continuous", "orca", "chunked_prefill", "static"])
@pytest.mark.parametrize(
    ("arrival_s", "replica"),
    [
        # r1's step on replica 1 ends at 2.  Just before it both replicas have one request,
        # and it is replica 0's turn; at 2 the finish is seen.
        (np.nextafter(2.0, 0.0), 0),
        (2.0, 1),
    ],
)
def test_a_finish_is_not_seen_by_a_router_before_its_step_ends(policy, arrival_s, replica):
    requests = table((0.0, 4, 8), (0.0, 4, 1), (arrival_s, 4, 1))
    static = {"batch_size": 1, "stream": 0} if policy == "static" else {}
    done = run(requests, policy, replicas=2, router="least_outstanding", **static)
    assert done.times("replica", "finished_s")[1] == (1, 2.0)
    assert done.recording.outcome.replica.tolist() == [0, 1, replica]


@pytest.mark.parametrize(
    ("arrival_s", "start_s"),
    [
        (np.nextafter(2.0, 0.0), 2.0),
        (2.0, 2.0),  # at equal times: commit, deliver, compose
        (np.nextafter(2.0, 3.0), 3.25),
    ],
)
def test_an_arrival_joins_the_step_that_starts_at_its_time(arrival_s, start_s):
    # r0: 0 -> 2, then decodes of 1.25 s.
    done = run(table((0.0, 4, 3), (arrival_s, 4, 1)))
    assert done.times("admitted_s")[1] == (start_s,)


def test_replicas_do_not_touch_each_other():
    rows = [(0.25 * k, 3 + k % 5, 1 + k % 7) for k in range(40)]
    tight = {"block_size": 2, "usable_blocks": 12, "max_num_seqs": 3, "max_model_len": 16}
    both = run(table(*rows), replicas=2, **tight)
    for replica in (0, 1):
        alone = run(table(*rows[replica::2]), **tight)
        mine = both.recording.steps.replica == replica
        assert np.array_equal(both.recording.steps.end_s[mine], alone.recording.steps.end_s)
        assert both.times("finished_s")[replica::2] == alone.times("finished_s")


@pytest.mark.parametrize("router", ["round_robin", "least_outstanding"])
def test_bulk_delivery_is_delivery_one_by_one(router):
    rows = [(0.25 * k, 3 + k % 5, 1 + k % 7) for k in range(40)]
    bulk = run(table(*rows), router=router)
    made = fleet(table(*rows))
    for row, (arrival_s, _, _) in enumerate(rows):
        made.advance(arrival_s)
        made.deliver(np.array([row]), np.array([0]))
    made.advance(np.inf)
    assert digest(bulk.recording) == digest(made.recording(0.0))


def placed(router: str, *rows: tuple[float, int, int], **more) -> list[int]:
    """Replica of each request."""
    return [row[0] for row in run(table(*rows), router=router, replicas=2, **more).times("replica")]


def test_least_kv_looks_at_blocks_and_not_at_requests():
    # r0 holds 4 blocks of 4 tokens on replica 0, r1 and r2 one each on replica 1, where there
    # are more requests: r3 goes there all the same, while least_outstanding sends it to 0.
    rows = ((0.0, 15, 8), (0.1, 1, 8), (0.2, 1, 8), (6.0, 1, 1))
    assert placed("least_kv", *rows) == [0, 1, 1, 1]
    # r2 finds one on each and goes round; r3 finds two on replica 0.
    assert placed("least_outstanding", *rows) == [0, 1, 0, 1]


def test_power_of_two_of_two_replicas_takes_the_less_loaded():
    # Both are drawn each time.  r1 goes where r0 is not, r3 where r2 is not; all go on.
    rows = [(0.1 * k, 4, 50) for k in range(4)]
    chosen = placed("power_of_two", *rows)
    assert chosen[0] != chosen[1]
    assert chosen[2] != chosen[3]


def test_random_spreads_evenly_and_repeats_itself():
    rows = [(float(k), 1, 1) for k in range(400)]
    chosen = placed("random", *rows)
    # Binomial: 200 with a standard deviation of 10.
    assert abs(sum(chosen) - 200) < 40
    assert chosen == placed("random", *rows)
    # Neighbours are alike about half the time.
    assert 150 < sum(a == b for a, b in itertools.pairwise(chosen)) < 250


def test_prefix_affinity_follows_the_longest_prompt_sent():
    # Two documents of 8 tokens; r0 takes the first to replica 0, r1 the second to replica 1.
    # r2 asks more about the first, r3 about the second, though the turn would be the other way.
    # r4 shares only 4 of its 20 tokens, less than three tenths: to where fewest are, replica 0.
    pieces = [[(1, 8)], [(2, 8)], [(2, 8), (3, 2)], [(1, 8), (4, 2)], [(2, 4), (5, 16)]]
    rows = ((0.0, 8, 2), (0.1, 8, 2), (30.0, 10, 2), (60.0, 10, 2), (90.0, 20, 2))
    done = run(table(*rows, pieces=pieces), router="prefix_affinity", replicas=2)
    assert [row[0] for row in done.times("replica")] == [0, 1, 1, 0, 0]


def test_prefix_affinity_yields_to_uneven_load():
    # All ask about one document: 66 are on replica 0 when it has more than 64 above and more
    # than 1.5 times the other, which then gets the next.
    rows = [(0.001 * k, 8, 4) for k in range(70)]
    pieces = [[(1, 8)]] * 70
    done = run(table(*rows, pieces=pieces), router="prefix_affinity", replicas=2, max_num_seqs=70)
    assert [row[0] for row in done.times("replica")].index(1) == 65
