"""Turns that wait for each other, by hand.  A step of m tokens lasts 1 + m/4 seconds."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import run, table

from simulator.recording import FINISHED, REJECTED, UNFINISHED
from simulator.workload.content import output_tag, own_tag
from simulator.workload.requests import Seating

TIMES = ("arrival_s", "admitted_s", "finished_s")


def session(*rows, next_request, think_s, **more):
    return table(
        *rows,
        next_request=np.array(next_request, np.int64),
        think_s=np.array(think_s, np.float64),
        **more,
    )


def test_a_turn_comes_think_s_after_the_last_token_before_it():
    # r0: 0 -> 2, decode 1.25: 3.25.  r1 comes 0.75 later, at 4: 6.  r2 at once: 6 -> 8.
    rows = ((0.0, 4, 2), (0.0, 4, 1), (0.0, 4, 1))
    done = run(session(*rows, next_request=[1, 2, -1], think_s=[0.75, 0, 0]))
    assert done.times(*TIMES) == [(0.0, 0.0, 3.25), (4.0, 4.0, 6.0), (6.0, 6.0, 8.0)]


def test_two_sessions_meet_in_a_batch():
    # Session a: r0, r1; session b: r2, r3.  0: r0 -> 2.  r1 at 2.5.  r2 came at 1: 2 -> 4.
    # 4: r1 beside nothing else, 4 -> 6; r3 at 4.5 joins at 6: r1 ended, 6 -> 8.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (1.0, 4, 1), (1.0, 4, 1))
    done = run(session(*rows, next_request=[1, -1, 3, -1], think_s=[0.5, 0, 0.5, 0]))
    assert done.times(*TIMES) == [
        (0.0, 0.0, 2.0), (2.5, 4.0, 6.0), (1.0, 2.0, 4.0), (4.5, 6.0, 8.0)
    ]  # fmt: skip


def test_a_turn_finds_what_the_turns_before_left_in_the_cache():
    # Blocks of 4.  r0: 8 tokens, 5 out, of which 4 have KV: three full blocks.  r1's prompt is
    # those 13 and 3 of its own: 12 cached, 4 computed.  r0: 1 + 8/4 = 3, then 4 x 1.25: 8.
    # r1 at 9: 1 + 4/4 = 2: 11.
    rows = ((0.0, 8, 5), (0.0, 16, 1))
    pieces = [[], [(own_tag(0), 8), (output_tag(0), 5)]]
    done = run(
        session(*rows, next_request=[1, -1], think_s=[1.0, 0], pieces=pieces), allocator="prefix",
        usable_blocks=64,
    )  # fmt: skip
    assert done.times(*TIMES) == [(0.0, 0.0, 8.0), (9.0, 9.0, 11.0)]
    assert done.times("cached_tokens") == [(0,), (12,)]


def test_the_semaphore_counts_requests_in_flight():
    # One seat.  r0 (0 -> 2); its follower r1 is ready at 3, r2 since 0: 2 -> 4; r1 4 -> 6.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    requests = session(*rows, next_request=[1, -1, -1], think_s=[1.0, 0, 0], max_concurrency=1)
    assert run(requests).times(*TIMES) == [(0.0, 0.0, 2.0), (4.0, 4.0, 6.0), (2.0, 2.0, 4.0)]


def test_a_client_may_hold_its_seat_for_a_session():
    # The same, but r2 is another client's session: it waits for r1, and the seat's own 0.5 s.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    requests = session(
        *rows, next_request=[1, -1, -1], think_s=[1.0, 0, 0], max_concurrency=1,
        seating=Seating(think_s=0.5, whole_session=True),
    )  # fmt: skip
    assert run(requests).times(*TIMES) == [(0.0, 0.0, 2.0), (3.0, 3.0, 5.0), (5.5, 5.5, 7.5)]


def test_clients_come_one_by_one_over_the_ramp():
    # Two seats, free at 0 and 4 (8 s / 2); each thinks for 1 s.  r0: 0 -> 2, r1: 3 -> 5.
    # 4: the second seat, r2 comes and joins at 5 -> 7.  6: the first again, r3 7 -> 9.
    requests = table(*[(0.0, 4, 1)] * 4, max_concurrency=2, seating=Seating(1.0, 8.0))
    assert run(requests).times(*TIMES) == [
        (0.0, 0.0, 2.0), (3.0, 3.0, 5.0), (4.0, 5.0, 7.0), (6.0, 7.0, 9.0)
    ]  # fmt: skip


def test_the_session_goes_on_after_a_rejection():
    # r0 never fits in a model of 8 tokens; r1 comes 1 s after it was refused: 2 + 1.
    rows = ((2.0, 9, 1), (2.0, 4, 1), (5.5, 4, 1))
    done = run(session(*rows, next_request=[1, -1, -1], think_s=[1.0, 0, 0]), max_model_len=8)
    assert done.recording.outcome.status.tolist() == [REJECTED, FINISHED, FINISHED]
    assert done.times(*TIMES)[1:] == [(3.0, 3.0, 5.0), (5.5, 5.5, 7.5)]


@pytest.mark.parametrize(("horizon_s", "last"), [(3.0, UNFINISHED), (6.0, FINISHED)])
def test_a_turn_after_the_horizon_is_not_sent(horizon_s, last):
    rows = ((0.0, 4, 1), (0.0, 4, 1))
    done = run(session(*rows, next_request=[1, -1], think_s=[1.0, 0]), horizon_s=horizon_s)
    assert done.recording.outcome.status.tolist() == [FINISHED, last]


@pytest.mark.parametrize(("router", "replicas"), [("session_affinity", 0), ("round_robin", 1)])
def test_affinity_brings_a_session_back_to_its_replica(router, replicas):
    # r0 -> 0 and r2 -> 1 at 0; r1 follows r0 at 3, when both are idle again.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    done = run(
        session(*rows, next_request=[1, -1, 3, -1], think_s=[1.0, 0, 0, 0]), router=router,
        replicas=2,
    )  # fmt: skip
    # r3 follows r2 at 2: round robin's third, so on replica 0, and r1 on replica 1.
    assert done.recording.outcome.replica.tolist() == [0, replicas, 1, 1 - replicas]


def test_replicas_are_not_ahead_of_an_end_that_somebody_waits_for():
    # Replica 1 has r2 until 2 + 8 x 1.25 = 12; r0 ends at 2 on replica 0, which is idle when
    # its follower r1 comes at 2.5.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 9))
    done = run(
        session(*rows, next_request=[1, -1, -1], think_s=[0.5, 0, 0]), replicas=2,
        router="least_outstanding",
    )  # fmt: skip
    assert done.times("replica", *TIMES) == [
        (0, 0.0, 0.0, 2.0), (0, 2.5, 2.5, 4.5), (1, 0.0, 0.0, 12.0)
    ]  # fmt: skip


def test_a_turn_waits_for_the_sub_agents_that_another_started():
    # r0: 0 -> 2 starts r2 0.5 later (2.5 -> 4.5) and r3 1 later, at 3, which waits for the step:
    # 4.5 -> 6.5.  r1 wants r0, r2 + 0.25 = 4.75 and r3 + 0.5 = 7: 7 -> 9.
    rows = ((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1))
    requests = session(
        *rows, next_request=[1, -1, -1, -1], think_s=[0.0, 0, 0, 0],
        links=np.array([(0, 2), (0, 3), (2, 1), (3, 1)]), link_s=np.array([0.5, 1.0, 0.25, 0.5]),
    )  # fmt: skip
    assert requests.starts.tolist() == [0]
    assert requests.sent_after().tolist() == [-1, 0, 0, 0]
    assert run(requests).times(*TIMES) == [
        (0.0, 0.0, 2.0), (7.0, 7.0, 9.0), (2.5, 2.5, 4.5), (3.0, 4.5, 6.5)
    ]  # fmt: skip


def test_a_client_keeps_its_seat_until_its_sub_agents_have_ended():
    # r0: 0 -> 2; its sub-agent r1, which nobody waits for, at 3 -> 5; 0.5 s on, r2: 5.5 -> 7.5.
    requests = session(
        (0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1), next_request=[-1, -1, -1], think_s=[0.0, 0, 0],
        links=np.array([(0, 1)]), link_s=np.array([1.0]), max_concurrency=1,
        seating=Seating(think_s=0.5, whole_session=True),
    )  # fmt: skip
    assert run(requests).times(*TIMES) == [(0.0, 0.0, 2.0), (3.0, 3.0, 5.0), (5.5, 5.5, 7.5)]


def test_what_was_never_sent_did_not_arrive():
    # r0: 0 -> 2; r1 would come at 7, after the clock has stopped at 5.
    requests = session((0.0, 4, 1), (0.0, 4, 1), next_request=[1, -1], think_s=[5.0, 0])
    done = run(requests, horizon_s=5.0)
    assert done.times("arrival_s", "finished_s")[0] == (0.0, 2.0)
    assert np.isnan(done.times("arrival_s")[1][0])
