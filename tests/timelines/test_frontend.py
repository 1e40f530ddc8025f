"""The API server in front of an engine, by hand.  A step of m tokens lasts 1 + m/4 seconds."""

from __future__ import annotations

from engine_cases import run, table

TIMES = ("arrival_s", "admitted_s", "finished_s")


def test_open_loop_requests_wait_before_the_queue():
    # Each is in the queue 0.5 s after it was sent: 0 starts at 0.5, 1 (0.75) waits for it.
    done = run(table((0.0, 4, 1), (0.25, 4, 1)), frontend_s=0.5)
    assert done.times(*TIMES) == [(0.0, 0.5, 2.5), (0.25, 2.5, 4.5)]


def test_closed_loop_clients_send_when_the_last_token_has_come():
    done = run(table((0.0, 4, 1), (0.0, 4, 1), max_concurrency=1), frontend_s=0.5)
    assert done.times(*TIMES) == [(0.0, 0.5, 2.5), (2.5, 3.0, 5.0)]
