"""The waiting queue against the simplest that could be right."""

from __future__ import annotations

import numpy as np
from engine_cases import fleet, table
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine.queue import pop, push, push_front
from simulator.engine.verbs import head

N = 24


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=N, max_size=N),
    st.lists(st.booleans(), max_size=60),
    st.randoms(use_true_random=False),
)
def test_keyed_queue_serves_by_key_then_arrival_then_name(attributes, takes, random):
    priority, arrival = (list(column) for column in zip(*attributes, strict=True))
    names = [str(k) for k in range(N)]
    random.shuffle(names)
    order = np.argsort(arrival, kind="stable")
    requests = table(
        *[(float(arrival[k]), 1, 1) for k in order],
        priority=[priority[k] for k in order], ids=tuple(names),
    )  # fmt: skip
    engine = fleet(requests, order="priority").engine
    keys = [(requests.priority[k], requests.arrival_s[k], names[k]) for k in range(N)]
    inside: list[int] = []
    outside = list(range(N))
    random.shuffle(outside)
    for take in takes:
        if take and inside:
            first = min(inside, key=keys.__getitem__)
            assert head(engine, 0) == first
            assert pop(engine, 0) == first
            inside.remove(first)
            outside.append(first)
        elif outside:
            row = outside.pop(0)
            (push if random.random() < 0.5 else push_front)(engine, 0, row)
            inside.append(row)
        assert engine.replicas["waiting"][0] == len(inside)
    assert [pop(engine, 0) for _ in range(len(inside))] == sorted(inside, key=keys.__getitem__)
    assert head(engine, 0) == -1


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["back", "front", "pop"]), max_size=60))
def test_fcfs_queue_is_a_deque(actions):
    engine = fleet(table(*[(0.0, 1, 1)] * N)).engine
    inside: list[int] = []
    outside = list(range(N))
    for action in actions:
        if action == "pop" and inside:
            assert pop(engine, 0) == inside[0]
            outside.append(inside.pop(0))
        elif action == "back" and outside:
            inside.append(outside.pop(0))
            push(engine, 0, inside[-1])
        elif action == "front" and outside:
            inside.insert(0, outside.pop(0))
            push_front(engine, 0, inside[0])
    assert [pop(engine, 0) for _ in range(len(inside))] == inside
