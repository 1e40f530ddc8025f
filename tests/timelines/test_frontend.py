"""The API server in front of an engine, by hand.  A step of m tokens lasts 1 + m/4 seconds."""

from __future__ import annotations

from engine_cases import run, table

from cost_models.step_cost import Frontend

TIMES = ("arrival_s", "admitted_s", "finished_s")


def test_open_loop_requests_wait_before_the_queue():
    # Each is in the queue 0.5 s after it was sent: 0 starts at 0.5, 1 (0.75) waits for it.
    done = run(table((0.0, 4, 1), (0.25, 4, 1)), frontend=Frontend(wait_s=0.5))
    assert done.times(*TIMES) == [(0.0, 0.5, 2.5), (0.25, 2.5, 4.5)]


def test_closed_loop_clients_send_when_the_last_token_has_come():
    done = run(table((0.0, 4, 1), (0.0, 4, 1), max_concurrency=1), frontend=Frontend(wait_s=0.5))
    assert done.times(*TIMES) == [(0.0, 0.5, 2.5), (2.5, 3.0, 5.0)]


def test_the_server_deals_with_one_prompt_after_the_other():
    # At 1 s a token the first 4 are dealt with at 4, the 2 after them at 6; each waits 0.5 s.
    server = Frontend(wait_s=0.5, busy_s_per_token=1.0)
    done = run(table((0.0, 4, 1), (0.0, 2, 1)), frontend=server)
    assert done.times(*TIMES) == [(0.0, 4.5, 6.5), (0.0, 6.5, 8.0)]


def test_each_replica_has_its_own_server():
    server = Frontend(busy_s_per_token=0.25)
    done = run(table((0.0, 4, 1), (0.0, 4, 1)), frontend=server, replicas=2)
    assert done.times(*TIMES) == [(0.0, 1.0, 3.0), (0.0, 1.0, 3.0)]
