"""Roots and least numbers of functions whose answer is known."""

from __future__ import annotations

import math

import pytest

from simulator.errors import InputError
from simulator.planning.capacity.fleet import least
from simulator.planning.capacity.solve import greatest, greatest_whole


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
