"""Replicas that come and go, by hand.  A step of m tokens lasts 1 + m/4 seconds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from engine_cases import digest, fleet, run, table
from recordings import resolved

from simulator.cluster.routers import ROUTERS
from simulator.cluster.scaling_rules import TargetRule, desired_replicas
from simulator.metrics.latency import population
from simulator.metrics.leases import count_over_time, covered_s, overlap_s, paid, starting
from simulator.scenario.autoscaler import ScheduledScaler, TargetScaler


def target(**more):
    return TargetScaler.model_validate(
        {"policy": "target_tracking", "target": 3.0, "poll_interval_s": 10.0, "max_replicas": 3,
         "scale_down_stabilization_s": 0.0} | more
    )  # fmt: skip


def schedule(*points, **more):
    return ScheduledScaler.model_validate(
        {"policy": "schedule", "points": points, "poll_interval_s": 1.0, "max_replicas": 2} | more
    )


def leases(done):
    found = done.recording.leases
    columns = (found.replica, found.ordered_s, found.ready_s, found.drained_s, found.released_s)
    return [tuple(None if x != x else x for x in row) for row in zip(*columns, strict=True)]


def twenty():
    """A request each second, each of which takes a replica for 2 s, one after the other."""
    return table(*[(k + 0.25, 4, 1) for k in range(20)])


def test_it_orders_and_drains_by_the_load():
    done = run(twenty(), autoscaler=target(), start_s=5.0, max_num_seqs=1)
    assert leases(done) == [
        (0, 0.0, 0.0, None, None),
        # 10: ten came, four ended at 2.25 ... 8.25; 6 / 3 are two replicas.
        (1, 10.0, 15.0, 30.0, 30.0),
        # 20: replica 0 was sent 17 and ended 9, replica 1 was sent 3 and ended 2; 9 / 3.
        (2, 20.0, 25.0, 30.0, 30.0),
        # 30: three are left, all on replica 0; the youngest go.
    ]
    # From 15 on they take turns; replica 2 comes too late to be sent anything.
    assert done.recording.outcome.replica.tolist() == [0] * 15 + [1, 0, 1, 0, 1]
    assert done.recording.end_s == 34.25  # 17 requests of 2 s from 0.25 on
    assert overlap_s(paid(done.recording), 0.0, np.inf) == 34.25 + 20 + 10


def test_waiting_while_a_replica_starts():
    done = run(twenty(), autoscaler=target(), start_s=5.0, max_num_seqs=1)
    outcome = done.recording.outcome
    cold_s = covered_s(starting(done.recording), outcome.arrival_s, outcome.admitted_s)
    # Replicas start from 10 to 15 and from 20 to 25.
    assert outcome.admitted_s[[9, 12, 14, 18]].tolist() == [18.25, 24.25, 28.25, 32.25]
    assert cold_s[[0, 9, 12, 14, 18]].tolist() == [0, 5, 2.75 + 4.25, 0.75 + 5, 5]
    times, count = count_over_time(paid(done.recording))
    assert times.tolist() == [0, 10, 20, 30, 34.25]
    assert count.tolist() == [1, 2, 3, 1, 0]


def test_what_is_drained_finishes_and_is_paid_for_until_then():
    # Replica 1 works from 9.25 on: 2 + 8 x 1.25 = 12 s.  From 10 on all goes to replica 0.
    rows = ((0.25, 4, 1), (9.25, 4, 9), (10.5, 4, 1), (11.5, 4, 1), (12.5, 4, 1))
    done = run(table(*rows), autoscaler=schedule((0, 2), (10, 1), max_replicas=3), at_start=2)
    assert done.recording.outcome.replica.tolist() == [0, 1, 0, 0, 0]
    assert leases(done) == [(0, 0, 0, None, None), (1, 0, 0, 10, 21.25)]


def test_a_replica_that_drains_keeps_its_place():
    # Wanted again at 12, when the only other place is still draining: ordered at 22.
    rows = ((0.25, 4, 1), (9.25, 4, 9), (30.5, 4, 1))
    done = run(table(*rows), autoscaler=schedule((0, 2), (10, 1), (12, 2)), at_start=2)
    assert leases(done) == [
        (0, 0, 0, None, None), (1, 0, 0, 10, 21.25), (1, 22, 22, None, None)
    ]  # fmt: skip


def test_one_that_starts_is_given_up_first():
    scaler = schedule((0, 1), (2, 2), (5, 1))
    done = run(table((0.25, 4, 1), (20.25, 4, 1)), autoscaler=scaler, start_s=10.0)
    assert leases(done) == [(0, 0, 0, None, None), (1, 2, None, 5, 5)]
    assert starting(done.recording)[1].tolist() == [0, 5]


def test_a_schedule_starts_again():
    scaler = schedule((0, 1), (3, 2), period_s=5.0)
    assert [scaler.replicas_at(t) for t in (0, 2.9, 3, 4.9, 5, 8)] == [1, 1, 2, 2, 1, 2]


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seats", [None, 3])
def test_every_router_keeps_to_those_that_serve(router, seats):
    # Three replicas up to 20, the oldest alone up to 40, then two.
    rows = [(0.5 * k + 0.1, 4, 2) for k in range(120)]
    pieces = [[(1, 4)] for _ in rows]
    done = run(
        table(*rows, pieces=pieces, max_concurrency=seats), router=router, at_start=3,
        autoscaler=schedule((0, 3), (20, 1), (40, 2), max_replicas=3), start_s=2.0,
    )  # fmt: skip
    outcome = done.recording.outcome
    assert (outcome.status == 1).all()
    at = [outcome.replica[(outcome.arrival_s > a) & (outcome.arrival_s < b)]
          for a, b in ((0, 20), (20, 42), (42, 60))]  # fmt: skip
    # All prompts are alike: prefix_affinity only leaves replica 0 when that has far more to do.
    spread = router != "prefix_affinity"
    assert set(at[0]) == ({0, 1, 2} if spread else {0})
    assert set(at[1]) == {0}
    assert set(at[2]) == {0, 1} or (not spread and set(at[2]) == {0})


def test_a_session_whose_replica_is_drained_moves_to_another_and_stays():
    # The first session's turns r0, r2, r3 would all go to replica 1, the second's r1 to 0.
    rows = ((0.25, 4, 1), (0.0, 4, 1), (0.25, 4, 1), (0.25, 4, 1))
    requests = table(
        *rows[1:2], rows[0], *rows[2:],
        next_request=np.array([-1, 2, 3, -1]), think_s=np.array([0.0, 8.0, 20.0, 0.0]),
    )  # fmt: skip
    scaler = schedule((0, 2), (5, 1), (15, 2))
    done = run(requests, router="session_affinity", autoscaler=scaler, at_start=2)
    # 0.25 -> 2.25 on replica 1; at 10.25 that is gone; at 32.25 there is another in its place.
    assert done.times("replica", "arrival_s", "finished_s") == [
        (0, 0.0, 2.0), (1, 0.25, 2.25), (0, 10.25, 12.25), (0, 32.25, 34.25)
    ]  # fmt: skip


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seats", [None, 3])
def test_a_fleet_that_never_changes_is_a_fixed_one(router, seats):
    rows = [(0.3 * k, 3 + k % 5, 1 + k % 7) for k in range(60)]
    requests = table(*rows, max_concurrency=seats)
    fixed = run(requests, router=router, replicas=2)
    two = target(min_replicas=2, max_replicas=2)
    scaled = run(requests, router=router, autoscaler=two, at_start=2)
    assert digest(fixed.recording) == digest(scaled.recording)
    assert leases(scaled) == [(0, 0, 0, None, None), (1, 0, 0, None, None)]


def test_the_same_bytes_each_time():
    one, other = (run(twenty(), autoscaler=target(), start_s=5.0, router="random") for _ in "ab")
    assert digest(one.recording) == digest(other.recording)
    assert leases(one) == leases(other)


def test_a_new_replica_knows_no_prefix():
    requests = table(*[(10.0 * k, 8, 1) for k in range(4)], pieces=[[(1, 8)]] * 4)
    made = fleet(requests, allocator="prefix", usable_blocks=4, max_num_seqs=1)
    zero = np.zeros(1, np.int64)
    for row in range(4):
        made.deliver(np.array([row]), zero)
        made.advance(10.0 * row + 9)
        assert made.is_idle(0)
        if row == 1:
            made.replace(0)
    # At least one token is computed: of two blocks of four, one can be found.
    assert made.recording(50.0).outcome.cached_tokens.tolist() == [0, 4, 0, 4]
    assert made.held_blocks().tolist() == [0]


def test_the_horizon_cuts_what_comes_later():
    done = run(twenty(), autoscaler=target(), start_s=5.0, max_num_seqs=1, horizon_s=22.0)
    assert leases(done)[1:] == [(1, 10.0, 15.0, None, None), (2, 20.0, None, None, None)]
    assert overlap_s(paid(done.recording), 0.0, np.inf) == 22 + 12 + 2


@pytest.mark.parametrize(
    ("total", "current", "aim", "replicas"),
    [
        (0.2, 1, 0.1, 2),  # the two examples of Kubernetes' documentation: twice the target ...
        (0.1, 2, 0.1, 1),  # ... and half of it
        (100, 4, 5, 20),  # KEDA: a queue of 100 at 5 for each
        (33, 10, 3.0, 10),  # 10 % above: within the tolerance
        (33.1, 10, 3.0, 12),
        (26.9, 10, 3.0, 9),
        (0.3, 2, 0.1, 3),  # 0.3 / 0.1 is 3.0000000000000004 or so, and 3 replicas
        (0, 3, 1.0, 0),
    ],
)
def test_the_rule_of_the_horizontal_pod_autoscaler(total, current, aim, replicas):
    assert desired_replicas(total, current, aim, 0.1) == replicas


def wanted_over_time(spec, loads, replicas=1):
    """Replicas after each look, 10 s apart, at these sums of running and waiting requests."""
    rule, ordered, found = TargetRule(spec, replicas), replicas, []
    for k, load in enumerate(loads):
        seen = SimpleNamespace(outstanding=lambda load=load: np.array([load]))
        ordered = rule(10.0 * (k + 1), ordered, seen, [0])
        found.append(ordered)
    return found


def test_windows_hold_changes_back():
    loads = [9, 3, 3, 3, 3, 9, 9, 3]
    assert wanted_over_time(target(), loads) == [3, 1, 1, 1, 1, 3, 3, 1]
    # Down only to the most that was wanted in less than 30 s.
    down = target(scale_down_stabilization_s=30.0)
    assert wanted_over_time(down, loads) == [3, 3, 3, 1, 1, 3, 3, 3]
    # Up only to the fewest in less than 20 s: the second 9 in a row counts.
    up = target(scale_up_stabilization_s=20.0)
    assert wanted_over_time(up, loads) == [1, 1, 1, 1, 1, 1, 3, 1]
    # A change, and then none for 30 s.
    cool = target(cooldown_s=30.0)
    assert wanted_over_time(cool, loads) == [3, 3, 3, 1, 1, 1, 3, 3]
    # Means of three looks: 9; 6; 5; 3; 3; 5; 7; 7.
    assert wanted_over_time(target(average_s=30.0), loads) == [3, 2, 2, 1, 1, 2, 3, 3]


def test_metrics_are_summed_over_those_that_serve():
    rows = [(0.0, 4, 2)] * 5 + [(0.0, 4, 1)] * 2
    made = fleet(table(*rows), replicas=3, max_num_seqs=2, usable_blocks=8)
    made.deliver(np.arange(7), np.array([0, 0, 0, 0, 1, 2, 2]))
    made.advance(1.0)
    for metric, total in (("concurrency", 5.0), ("waiting", 2.0), ("kv_usage", 3 / 8)):
        rule = TargetRule(target(metric=metric), 3)
        assert rule._measure(10.0, made, [0, 1]) == total
    rate = TargetRule(target(metric="request_rate"), 3)
    assert rate._measure(10.0, made, [0, 1]) == 0.7  # also those of replica 2
    assert rate._measure(20.0, made, [0, 1]) == 0.0


def test_the_bill_is_that_of_the_leases():
    made = run(twenty(), autoscaler=target(), start_s=5.0, max_num_seqs=1).recording
    from simulator.metrics.summary import summarize

    # From the first arrival at 0.25 to the last token at 34.25, at a thousandth of a dollar a
    # second: 34 + 20 + 10 s.  Reserved at 60 %, the first pays for itself, there 100 % of the
    # time, and the second not, there 58.8 %.
    summary = summarize(
        made,
        resolved(
            "cluster.price_per_gpu_hour=3.6",
            "cluster.reserved_price_per_gpu_hour=2.16",
            "cluster.autoscaler={policy: target_tracking, target: 3.0, max_replicas: 3}",
        ),
    )
    assert summary["gpu_hours"] == pytest.approx(64 / 3600)
    assert summary["cost"] == pytest.approx(0.064)
    assert summary["mean_replicas"] == pytest.approx(64 / 34)
    assert (summary["scale_ups"], summary["scale_downs"], summary["peak_replicas"]) == (2, 2, 3)
    assert summary["cost_of_fixed_peak"] == pytest.approx(3 * 0.034)
    assert summary["reserved_replicas"] == 1
    assert summary["cost_with_reserved"] == pytest.approx(0.6 * 0.034 + 0.030)
    limits = {one["resource"]: one["share"] for one in summary["limits"]}
    assert limits["cold_start"] == pytest.approx(10 / 64)
    assert sum(limits.values()) == pytest.approx(1.0)
    assert summary["utilisation"] == pytest.approx(40 / 64)
    parts = summary["attribution"]["ttft"]
    outcome = made.outcome
    cold_s = covered_s(starting(made), outcome.arrival_s, outcome.admitted_s).sum()
    total_s = (outcome.first_token_s - outcome.arrival_s).sum()
    assert parts["cold_start"] == pytest.approx(cold_s / total_s)
    assert population(made).completed.all()
