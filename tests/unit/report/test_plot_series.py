"""What plots draw, from steps written out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from recordings import recording, req, resolved, step

from simulator.metrics import summarize
from simulator.report.plots import (
    plot_comparison,
    plot_itl,
    plot_latency,
    plot_load,
    plot_timeline,
)
from simulator.report.plots.series import (
    averages,
    ccdf,
    occupancy,
    stairs,
    telling_window,
    thin,
    waiting,
    waiting_at,
)

REQUESTS = [
    req(0.0, 4, 3, admitted=0.0, first=1.0, finished=5.0),
    req(0.5, 99, 1, admitted=1.0, first=3.0, finished=3.0),
    req(2.0, 4, 1, admitted=4.0, first=5.0, finished=5.0),
]
STEPS = [
    step(0, 1, prefill_seqs=1, prefill_tokens=4, running=1),
    step(1, 3, prefill_seqs=1, prefill_tokens=25, padding_tokens=75, running=2),
    step(4, 5, decode_seqs=1, bubble_seqs=1, running=2),
]
REC = recording(REQUESTS, STEPS, [(0.5, 3), (2.0, 1)])


def test_occupancy_adds_up_to_the_seats():
    layers = occupancy(REC.steps)
    assert layers["decode"].tolist() == [0, 0, 1]
    assert layers["prefill"].tolist() == [1, 0.25, 0]
    assert layers["padding"].tolist() == [0, 0.75, 0]
    assert layers["stalled"].tolist() == [0, 1, 0]
    assert layers["bubble"].tolist() == [0, 0, 1]
    assert sum(layers.values()).tolist() == [1, 2, 2]


def test_stairs_fall_to_zero_between_steps():
    found = stairs(REC, (2.0, 5.0))
    assert found.time_s.tolist() == [1, 1, 3, 3, 4, 4, 5, 5]
    assert found.layers["stalled"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0]


def test_averages_are_exact_and_count_idle_time():
    edges = np.array([0.0, 2.0, 4.0, 5.0])
    found = averages(REC.steps, edges, {"running": REC.steps.running.astype(float)})
    assert found["running"].tolist() == [1.5, 1.0, 2.0]


def test_averages_add_replicas_up():
    rows = [step(0, 2, running=3), step(0, 1, running=1, replica=1)]
    rec = recording(REQUESTS, rows, replicas=2)
    found = averages(rec.steps, np.array([0.0, 2.0]), {"running": rec.steps.running.astype(float)})
    assert found["running"].tolist() == [3.5]


def test_waiting_moves_within_a_step():
    time_s, count = waiting(REC, (0.0, 5.0))
    assert time_s.tolist() == [0.0, 0.5, 1.0, 2.0, 4.0, 5.0]
    assert count.tolist() == [0, 1, 0, 1, 0, 0]


def test_waiting_at_given_times():
    assert waiting_at(REC, np.array([0.0, 0.7, 1.0, 3.9])).tolist() == [0, 1, 0, 1]


def test_ccdf_of_a_large_sample_is_binned_and_still_exact_at_its_bins():
    value = np.linspace(1.0, 2.0, 300_000)
    at, above = ccdf(value, np.ones(len(value), np.int64))
    assert len(at) <= 20_000
    np.testing.assert_allclose(above, 2.0 - at, atol=1e-4)


def test_window_is_where_seats_are_lost():
    rows = [req(float(t), admitted=t, first=t + 1.0, finished=t + 1.0) for t in range(101)]
    steps = [
        step(t, t + 1, running=4, decode_seqs=4 if t != 60 else 1, prefill_seqs=0)
        for t in range(100)
    ]
    start, end = telling_window([recording(rows, steps)], 10.0)
    assert end - start == pytest.approx(10.0)
    assert start <= 60 < 61 <= end


def test_ccdf_of_a_weighted_sample():
    value, above = ccdf(np.array([2.0, 0.5]), np.array([1, 3]))
    assert value.tolist() == [0.5, 2.0]
    assert above.tolist() == [0.25, 0.0]


def test_thin_keeps_the_ends():
    x = np.arange(100_000.0)
    kept, _ = thin(x, x)
    assert len(kept) <= 2000
    assert kept[0] == 0
    assert kept[-1] == 99_999


@pytest.fixture
def result():
    return SimpleNamespace(recording=REC, resolved=resolved(), summary=summarize(REC, resolved()))


@pytest.mark.parametrize("plot", [plot_timeline, plot_load, plot_itl, plot_latency])
def test_plots_draw(plot, result, tmp_path):
    plot(result).savefig(tmp_path / "plot.png")


def test_comparison_draws_runs_without_gaps_or_steps(result, tmp_path):
    empty = recording([req(0.0)], end_s=1.0)
    nothing = SimpleNamespace(recording=empty, summary=summarize(empty, resolved()))
    figure = plot_comparison({"one": result, "none": nothing})
    figure.savefig(tmp_path / "plot.png")
    assert len(figure.subfigs) == 2
