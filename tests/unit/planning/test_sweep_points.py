"""Which points a grid or a sample has."""

from __future__ import annotations

import math

import pytest

from simulator.errors import InputError
from simulator.planning.sweep import Range, grid, parse_axes, sample


def test_axes_of_a_command_line():
    common, axes = parse_axes(
        [
            "seed=3",
            "scheduler.max_num_seqs=16, 64",
            "workload.lengths={distribution: fixed, prompt_tokens: 8, output_tokens: 2}",
            "kv_cache.gpu_memory_utilization=0.5..0.9",
            "workload.arrivals.rate=1..64:log",
            "cluster.engine_version=0.20,0.9",
            "slo.p99.9_ttft_ms=500,600",
        ]
    )
    assert [override.path[0] for override in common] == ["seed", "workload"]
    assert axes == {
        "scheduler.max_num_seqs": [16, 64],
        "kv_cache.gpu_memory_utilization": Range(0.5, 0.9),
        "workload.arrivals.rate": Range(1, 64, log=True),
        "cluster.engine_version": ["0.20", "0.9"],  # versions, not numbers
        "slo.p99.9_ttft_ms": [500, 600],
    }


def test_a_grid_is_every_combination_once_the_last_key_fastest():
    points = grid({"a.b": [1, 2], "c": ["x", "y", "x"]})
    assert [point.number for point in points] == [0, 1, 2, 3]
    assert [tuple(point.values.values()) for point in points] == [
        (1, "x"), (1, "y"), (2, "x"), (2, "y"),
    ]  # fmt: skip
    assert [override.path for override in points[0].overrides] == [("a", "b"), ("c",)]


def test_a_grid_has_no_range():
    with pytest.raises(InputError, match=r"rate=1\.\.9: a grid needs values.*--sample N"):
        grid({"workload.arrivals.rate": Range(1, 9)})


@pytest.mark.parametrize("text", ["x=9..1", "x=3..3", "x=-1..4:log", "x=0..4:log"])
def test_empty_ranges(text):
    with pytest.raises(InputError, match="the range"):
        parse_axes([text])


def test_a_latin_sample_hits_each_piece_of_each_axis_once():
    axes = {"rate": Range(0.0, 10.0), "load": Range(1.0, 1000.0, log=True), "tp": [1, 2, 4, 8]}
    points = sample(axes, 20, "latin", seed=1)
    assert sorted(int(p.values["rate"] / 10.0 * 20) for p in points) == list(range(20))
    decades = [math.log10(p.values["load"]) / 3 for p in points]
    assert sorted(int(share * 20) for share in decades) == list(range(20))
    assert sorted(p.values["tp"] for p in points) == [1] * 5 + [2] * 5 + [4] * 5 + [8] * 5
    assert sample(axes, 20, "latin", seed=1) == points
    assert sample(axes, 20, "latin", seed=2) != points


def test_whole_numbers_are_drawn_evenly_and_both_ends_are():
    points = sample({"n": Range(1, 4)}, 400, "latin", seed=0)
    # 400 samples of four numbers: each is a point, once.
    assert sorted(p.values["n"] for p in points) == [1, 2, 3, 4]
    assert all(isinstance(p.values["n"], int) for p in points)
    assert [Range(1, 4).at(share) for share in (0.0, 0.2499, 0.2501, 0.999)] == [1, 1, 2, 4]


def test_a_random_sample_stays_in_its_range():
    points = sample({"x": Range(2.0, 3.0)}, 50, "random", seed=0)
    values = [p.values["x"] for p in points]
    assert len(set(values)) == 50
    assert all(2.0 <= value < 3.0 for value in values)
