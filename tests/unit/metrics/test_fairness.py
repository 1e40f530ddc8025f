"""Waits, service and Jain's index, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from recordings import recording, req, resolved

from simulator.metrics import summarize
from simulator.metrics.fairness import jain_index, service_tokens, waits_ms
from simulator.metrics.latency import population


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        ([1, 1], 1.0),
        ([7, 7, 7, 7], 1.0),
        ([5, 0], 1 / 2),
        ([0, 3, 0], 1 / 3),
        ([4, 4, 0, 0, 0], 2 / 5),  # k of n with all: k/n
        ([1, 2, 3], 36 / 42),
    ],
)
def test_jain_index(shares, index):
    assert jain_index(np.array(shares)) == pytest.approx(index, rel=1e-12)


def test_jain_index_of_no_service_does_not_exist():
    assert np.isnan(jain_index(np.array([0, 0])))


def test_who_still_waits_has_waited_until_the_end():
    # Waits of 1, 2 and, to the end at 9, 6 s; the rejected one is none of them.
    rec = recording(
        [
            req(0.0, admitted=1.0, first=2.0, finished=3.0),
            req(1.0, admitted=3.0, first=4.0, finished=5.0),
            req(2.0, reject="queue_full"),
            req(3.0),
        ],
        end_s=9.0,
    )
    out = waits_ms(rec, population(rec).counted)
    assert out["max_wait_ms"] == 6000.0
    # At 0.999 of the way from the first of three to the last: 2 + 0.998 x 4 s.
    assert out["p99.9_wait_ms"] == pytest.approx(2000.0 + 0.998 * 4000.0)


def tenant(k, prompt, output, finished):
    return req(0.0, prompt, output, admitted=1.0, first=2.0, finished=finished, class_id=k)


ROWS = [
    # Class 0 has 10 + 2 x 5 at 4 s and as much at 6 s and 9 s; class 1 has 30 + 2 x 5 at 6 s,
    # its last.  By then both have 40.
    tenant(0, 10, 5, 4.0), tenant(0, 10, 5, 6.0), tenant(0, 10, 5, 9.0), tenant(1, 30, 5, 6.0),
]  # fmt: skip


def test_service_counts_until_one_class_has_no_more_to_come():
    rec = recording(ROWS, class_names=("a", "b"))
    assert service_tokens(rec, population(rec)).tolist() == [40, 40]


def test_summary_has_the_index_and_each_class_its_waits():
    out = summarize(recording(ROWS, class_names=("a", "b")), resolved())
    assert out["jain_index"] == 1.0
    assert out["classes"]["a"]["max_wait_ms"] == 1000.0
    assert out["classes"]["b"]["service_tokens"] == 40
    assert summarize(recording(ROWS[:3]), resolved())["jain_index"] is None


def test_nobody_is_left_after_the_warm_up():
    out = summarize(recording(ROWS, class_names=("a", "b")), resolved("warmup_s=5"))
    assert [one["service_tokens"] for one in out["classes"].values()] == [0, 0]


def test_an_unfinished_class_makes_the_whole_run_count():
    # Class 1 has not finished at 8 s: class 0 has had 20 + 20, class 1 nothing.
    rows = [*ROWS[:2], req(0.0, 30, 5, admitted=1.0, class_id=1)]
    rec = recording(rows, class_names=("a", "b"), end_s=8.0)
    assert service_tokens(rec, population(rec)).tolist() == [40, 0]
