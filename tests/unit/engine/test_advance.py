"""Where a run is stopped, and how large its logs are, changes nothing in it."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import POLICIES, digest, fleet, run, table

from simulator.engine import allocate

OPTIONS = {
    "block_size": 2, "usable_blocks": 24, "max_model_len": 32, "max_num_batched_tokens": 32,
    "batch_size": 3, "max_wait_s": 1.0,
}  # fmt: skip


def workload(seed=0, n=60):
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1.0, n))
    return table(*zip(arrival_s, rng.integers(1, 20, n), rng.integers(1, 12, n), strict=True))


@pytest.mark.parametrize("events", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_small_logs_are_drained_in_time(policy, events, monkeypatch):
    whole = run(workload(), policy, replicas=2, **OPTIONS)
    monkeypatch.setattr(allocate, "LOG_STEPS", 7)
    drained = run(workload(), policy, replicas=2, events=events, **OPTIONS)
    assert len(drained.fleet.engine.steps) == 7
    # Gaps come per drained piece: the steps' and the lone ones', in another order.
    assert digest(drained.recording, without=["gap_s", "count"]) == digest(
        whole.recording, without=["gap_s", "count"]
    )
    assert drained.gaps_s() == whole.gaps_s()


def test_a_long_event_log_is_drained_in_time():
    requests = table((0.0, 4, 3000), (0.5, 4, 3000))
    done = run(requests, events=True)
    assert len(done.events) > len(done.fleet.engine.events)
    assert digest(done.recording) == digest(run(requests).recording)


@pytest.mark.parametrize("policy", POLICIES)
def test_advancing_in_slices_is_advancing_at_once(policy):
    requests = workload(1)
    at_once = run(requests, policy, **OPTIONS)
    ends_s = at_once.recording.steps.end_s
    sliced = fleet(requests, policy, **OPTIONS)
    sliced.deliver(np.arange(len(requests)), np.zeros(len(requests), np.int64))
    # Between steps, at their ends, just before and just after.
    moments = [0.5 * (ends_s[1:] + ends_s[:-1]), ends_s]
    moments += [np.nextafter(ends_s, 0.0), np.nextafter(ends_s, np.inf)]
    for moment in np.sort(np.concatenate(moments)):
        sliced.advance(moment)
        finished = at_once.recording.outcome.finished_s <= moment
        assert sliced.num_ended == finished.sum()
    assert digest(sliced.recording(0.0)) == digest(at_once.recording)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_horizon_shows_the_steps_that_have_ended_by_then(policy):
    whole = run(workload(2), policy, **OPTIONS).recording
    middle_s = whole.steps.end_s[len(whole.steps.end_s) // 2]
    for horizon_s in (middle_s, np.nextafter(middle_s, 0.0), 0.75 * middle_s):
        cut = run(workload(2), policy, horizon_s=horizon_s, **OPTIONS).recording
        seen = whole.steps.end_s <= horizon_s
        assert np.array_equal(cut.steps.end_s, whole.steps.end_s[seen])
        assert np.array_equal(cut.steps.kv_blocks, whole.steps.kv_blocks[seen])
        for name in ("first_token_s", "finished_s"):
            expected = getattr(whole.outcome, name).copy()
            expected[~(expected <= horizon_s)] = np.nan
            np.testing.assert_array_equal(getattr(cut.outcome, name), expected)


def test_progress_is_told_while_it_runs(monkeypatch):
    monkeypatch.setattr(allocate, "LOG_STEPS", 7)
    watched = fleet(workload(), **OPTIONS)
    seen = []
    watched.on_progress = lambda: seen.append(watched.num_ended)
    watched.deliver(np.arange(60), np.zeros(60, np.int64))
    watched.advance(np.inf)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] <= 60
