"""Random loads under random autoscalers: who serves, who is paid for, and nothing is lost."""

from __future__ import annotations

import numpy as np
from engine_cases import run, table
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.routers import ROUTERS
from simulator.engine.integrity import violations
from simulator.metrics.leases import covered_s, overlap_s, paid, starting
from simulator.recording import FINISHED
from simulator.scenario.autoscaler import ScheduledScaler, TargetScaler

ULP = 1e-9  # SimPy's clock is a sum of delays
HALVES = st.integers(0, 40).map(lambda k: k / 2)


@st.composite
def scalers(draw):
    most = draw(st.integers(1, 4))
    common = {
        "min_replicas": draw(st.integers(1, most)), "max_replicas": most,
        "poll_interval_s": draw(st.sampled_from((0.1, 0.75, 2.0, 7.0))),
    }  # fmt: skip
    counts = st.integers(common["min_replicas"], most)
    if draw(st.booleans()):
        points = [(5.0 * k, draw(counts)) for k in range(draw(st.integers(1, 5)))]
        spec = ScheduledScaler(policy="schedule", points=points, period_s=30.0, **common)
    else:
        spec = TargetScaler(
            policy="target_tracking",
            metric=draw(st.sampled_from(("concurrency", "waiting", "kv_usage", "request_rate"))),
            target=draw(st.sampled_from((0.05, 0.5, 1.0, 3.0))),
            average_s=draw(st.sampled_from((0.0, 4.0))),
            scale_up_stabilization_s=draw(st.sampled_from((0.0, 3.0))),
            scale_down_stabilization_s=draw(st.sampled_from((0.0, 6.0))),
            cooldown_s=draw(st.sampled_from((0.0, 5.0))),
            **common,
        )
    return spec, draw(counts)


@st.composite
def loads(draw):
    rows = draw(
        st.lists(st.tuples(HALVES, st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=25)
    )
    seats = draw(st.sampled_from((None, None, 2)))
    shared = [[(1, min(8, prompt))] for _, prompt, _ in sorted(rows)]
    return table(*sorted(rows), max_concurrency=seats, pieces=shared)


@settings(max_examples=60, deadline=None)
@given(
    load=loads(), scaler=scalers(), router=st.sampled_from(sorted(ROUTERS)),
    start_s=st.sampled_from((0.0, 0.3, 1.5, 9.0)), allocator=st.sampled_from(("paged", "prefix")),
)  # fmt: skip
def test_random_cases(load, scaler, router, start_s, allocator):
    spec, at_start = scaler
    done = run(
        load, router=router, autoscaler=spec, at_start=at_start, start_s=start_s,
        allocator=allocator, usable_blocks=24, max_num_seqs=2, events=True,
    )  # fmt: skip
    recording, leases = done.recording, done.recording.leases
    outcome = recording.outcome
    assert (outcome.status == FINISHED).all()
    assert violations(done.fleet, recording, done.events, every_member_scheduled=True) == []

    # Each was sent to a replica that served then, and that was paid for until it was done.
    ready = np.where(np.isnan(leases.ready_s), np.inf, leases.ready_s)
    drained = np.where(np.isnan(leases.drained_s), np.inf, leases.drained_s)
    released = np.where(np.isnan(leases.released_s), np.inf, leases.released_s)
    for replica, arrival_s, end_s in zip(
        outcome.replica, outcome.arrival_s, outcome.finished_s, strict=True
    ):
        serves = (
            (leases.replica == replica) & (ready <= arrival_s + ULP) & (arrival_s <= drained + ULP)
        )
        assert (serves & (end_s <= released)).any()

    # A place has one replica at a time, and there are as few and as many as allowed.
    for replica in range(spec.max_replicas):
        own = leases.replica == replica
        assert (leases.ordered_s[own][1:] >= released[own][:-1]).all()
    begin, end = paid(recording)
    for moment in np.unique(begin):
        there = (begin <= moment) & (moment < end)
        assert there.sum() <= spec.max_replicas
        assert (there & (moment < drained)).sum() >= spec.min_replicas or moment == 0

    # Working time lies in what is paid for, and waits for a start in the wait.
    busy_s = (recording.steps.end_s - recording.steps.start_s).sum()
    assert busy_s <= overlap_s(paid(recording), 0.0, recording.end_s) + 1e-9
    waited_s = outcome.admitted_s - outcome.arrival_s
    cold_s = covered_s(starting(recording), outcome.arrival_s, outcome.admitted_s)
    assert ((cold_s >= 0) & (cold_s <= waited_s + 1e-9)).all()
