"""Roots and least numbers of functions whose answer is known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from simulator.errors import InputError
from simulator.planning.capacity import solve
from simulator.planning.capacity.fleet import least
from simulator.planning.capacity.solve import greatest, greatest_whole
from simulator.planning.statistics import recorded_interval


@pytest.mark.parametrize("guess", [0.5, 6.9, 7.0, 7.1, 300.0])
def test_greatest_finds_the_root_from_anywhere(guess):
    # The latency of an M/M/1 queue of rate 10 with a limit of a third: 1 / (10 - x) = 1 / 3.
    asked = []

    def excess(load):
        asked.append(load)
        return math.log(3 / (10 - load)) if load < 10 else math.log(2)

    assert greatest(excess, guess) == pytest.approx(7.0, rel=0.01)
    assert len(asked) < 25


def test_greatest_of_a_jump():
    assert greatest(lambda x: -0.3 if x < 7 else 0.7, 5.0) == pytest.approx(7.0, rel=0.011)


def test_no_load_and_every_load():
    assert greatest(lambda _: 1.0, 5.0) == 0.0
    assert greatest(lambda _: -1.0, 5.0) == math.inf


@pytest.mark.parametrize("guess", [1, 6, 7, 8, 500])
@pytest.mark.parametrize("answer", [1, 7, 100])
def test_whole_numbers(guess, answer):
    assert greatest_whole(lambda n: -1 if n <= answer else 1, guess) == answer
    assert least(lambda n: n >= answer, guess) == answer


def test_no_whole_number():
    assert greatest_whole(lambda _: 1, 5) == 0
    with pytest.raises(InputError, match="not even 10,000 replicas"):
        least(lambda _: False, 5)


def test_loads_that_lie_far_apart_reach_no_load_below_none(monkeypatch):
    """24, and bootstraps of 8 and 16: t of 1 degree of freedom, 12.706, x sqrt(32), is 71.9."""
    system = SimpleNamespace(
        recorded=True, interval=recorded_interval, load=SimpleNamespace(unit="req/s")
    )
    roots = iter([24.0, 8.0, 16.0])
    monkeypatch.setattr(solve, "greatest_load", lambda *_: next(roots))
    found, _ = solve.sustained_load(system, 20.0, precision=0.05, replicates=(4, 3))
    assert (found.estimate, found.low) == (24.0, 0.0)
    assert found.high == pytest.approx(24 + 12.706 * 32**0.5, abs=1e-2)
