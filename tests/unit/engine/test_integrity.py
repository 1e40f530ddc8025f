"""The audit of a run notices what is wrong with it: each change of the log is found."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import run, table

from simulator import Scenario, simulate
from simulator.engine import log
from simulator.engine.integrity import violations

TIGHT = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}


def a_run():
    """Two requests, one of them preempted once; see timelines/test_kv_limits.py."""
    return run(table((0.0, 4, 6), (0.0, 4, 5)), events=True, **TIGHT)


def audit(done, events):
    return violations(done.fleet, done.recording, events, every_member_scheduled=True)


def test_a_sound_run_has_no_violations():
    done = a_run()
    assert audit(done, done.events) == []


def change(kind, field, by):
    def apply(events):
        events[field][np.flatnonzero(events["kind"] == kind)[1]] += by
        return events

    return apply


def repeat(kind):
    def apply(events):
        place = np.flatnonzero(events["kind"] == kind)[0]
        return np.insert(events, place, events[place])

    return apply


def without(kind):
    return lambda events: np.delete(events, np.flatnonzero(events["kind"] == kind)[0])


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (change(log.LAUNCH, "value", 1), "blocks are gone from the pool"),
        (change(log.COMMIT, "value", -1), "blocks are gone from the pool"),
        (change(log.LAUNCH, "time_s", 0.5), "start_s is"),
        (change(log.COMMIT, "time_s", 0.5), "end_s is"),
        (change(log.COMMIT, "time_s", -4.0), "the clock goes back"),
        (change(log.SCHEDULE, "value", 1), "tokens computed"),
        (change(log.SCHEDULE, "value", 100), "exceeds 16"),
        (repeat(log.FINISH), "ended 2 times"),
        (without(log.FINISH), "ended 0 times"),
        (without(log.PREEMPT), "found 0 tokens and lost 0"),
        (without(log.SCHEDULE), "got no token"),
        (repeat(log.ADMIT), "waiting is"),
        (without(log.ADMIT), "computes without a seat"),
    ],
)
def test_a_changed_log_is_found(tamper, found):
    done = a_run()
    try:
        wrong = audit(done, tamper(done.events.copy()))
    except (ValueError, IndexError) as error:  # the log cannot even be followed
        wrong = [str(error)]
    assert any(found in sentence for sentence in wrong), wrong


@pytest.mark.parametrize("changes", [[], ["workload.horizon_s=3"], ["cluster.replicas=2"]])
def test_a_result_is_audited_on_demand(changes):
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50", *changes]))
    assert result.check_integrity() == []


def test_a_forged_result_is_found_out():
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=5"]))
    result.recording.outcome.first_token_s[3] += 1e-3
    assert result.check_integrity() == [
        f"request 3: first token at {result.recording.outcome.first_token_s[3] - 1e-3}"
    ]
