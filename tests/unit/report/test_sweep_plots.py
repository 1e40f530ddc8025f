"""Plots of a sweep's results table, written out by hand.

Batch limits 8, 16 and 32: TTFT falls from twice its limit of 100 ms to half of it, TPOT rises
from half of its limit of 20 ms to 1.5 times it; only 16 meets both.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from simulator.errors import InputError
from simulator.report.plots import plot_pareto, plot_slo_region
from simulator.report.plots.sweep import GPU, USER, swept_keys

SEQS, RATE = "scheduler.max_num_seqs", "workload.arrivals.rate"
LIMITS = {"p99_ttft_ms": 100.0, "p99_tpot_ms": 20.0}
VALUES = {8: (200.0, 10.0), 16: (80.0, 18.0), 32: (50.0, 30.0)}


def row(point, seqs, rate=1.0, replicate=0, **more):
    ttft, tpot = VALUES[seqs]
    return {
        "point": point, "replicate": replicate, SEQS: seqs, RATE: rate, "status": "ok",
        "error": None, "state": "STABLE", "slo_met": ttft <= 100 and tpot <= 20,
        "slo.p99_ttft_ms": ttft, "slo.p99_tpot_ms": tpot, GPU: 10.0 * seqs,
        USER: 1000 / tpot, "pareto": True,
    } | more  # fmt: skip


def by_batch():
    return pd.DataFrame([row(k, seqs) for k, seqs in enumerate(VALUES)]).drop(columns=RATE)


def test_swept_keys_are_those_between_replicate_and_status():
    assert swept_keys(by_batch()) == [SEQS]


def test_one_key_shades_where_all_objectives_are_met():
    figure = plot_slo_region(by_batch(), LIMITS)
    top, bottom = figure.axes
    ttft, tpot, limit = top.lines
    assert list(ttft.get_ydata()) == [2.0, 0.8, 0.5]
    assert list(tpot.get_ydata()) == [0.5, 0.9, 1.5]
    assert limit.get_ydata()[0] == 1
    (shaded,) = top.patches
    assert (shaded.get_x(), shaded.get_width()) == (0.5, 1.0)  # the middle one of three
    assert list(bottom.lines[0].get_ydata()) == [80, 160, 320]
    assert [t.get_text() for t in bottom.get_xticklabels()] == ["8", "16", "32"]


def test_two_keys_name_the_worst_objective_of_each_cell():
    rows = [row(k + 3 * j, seqs, rate) for j, rate in enumerate((1.0, 2.0))
            for k, seqs in enumerate(VALUES)]  # fmt: skip
    rows[4] |= {"slo.p99_ttft_ms": 300.0}
    (axes,) = plot_slo_region(pd.DataFrame(rows), LIMITS).axes
    assert [text.get_text() for text in axes.texts] == [
        "×2\np99 ttft", "×0.9\np99 tpot", "×1.5\np99 tpot",
        "×2\np99 ttft", "×3\np99 ttft", "×1.5\np99 tpot",
    ]  # fmt: skip
    # One cell is met: its four sides are drawn.
    assert len(axes.lines) == 4
    shown = np.ma.getdata(axes.images[0].get_array())
    assert shown[0] == pytest.approx(np.log2([2.0, 0.9, 1.5]))


def test_keys_left_out_count_at_their_best():
    rows = [row(0, 8), row(1, 16, rate=5.0, **{"slo.p99_ttft_ms": 500.0}), row(2, 16, rate=1.0)]
    top, _ = plot_slo_region(pd.DataFrame(rows), LIMITS, [SEQS]).axes
    assert list(top.lines[0].get_ydata()) == [2.0, 0.8]


def test_replicates_are_averaged_and_an_overloaded_one_spoils_the_point():
    rows = [row(0, 16), row(0, 16, replicate=1, state="OVERLOADED", **{"slo.p99_ttft_ms": 90.0})]
    top, _ = plot_slo_region(pd.DataFrame(rows), LIMITS, [SEQS]).axes
    assert top.lines[0].get_ydata() == [0.85]  # (80 + 90) / 2 is within 100, but does not last
    assert not top.patches
    (cells,) = plot_slo_region(pd.DataFrame(rows), LIMITS).axes
    assert [text.get_text() for text in cells.texts] == ["×1\noverloaded"]


def test_failed_points_are_left_out():
    failed = row(1, 32, status="failed", error="too big", state=None, slo_met=None, pareto=None)
    axes = plot_pareto(pd.DataFrame([row(0, 16), failed])).axes[0]
    points = np.concatenate([c.get_offsets() for c in axes.collections])
    assert points.tolist() == [[pytest.approx(1000 / 18), 160.0]]
    with pytest.raises(InputError, match="no point of the sweep has a result"):
        plot_pareto(pd.DataFrame([failed]))


def test_pareto_joins_the_efficient_points_in_order_and_names_their_settings():
    rows = [row(0, 8), row(1, 16), row(2, 32, pareto=False, state="OVERLOADED")]
    axes = plot_pareto(pd.DataFrame(rows)).axes[0]
    (front,) = axes.lines
    assert list(front.get_xdata()) == [pytest.approx(1000 / 18), 100.0]
    assert list(front.get_ydata()) == [160, 80]
    assert {t.get_text() for t in axes.texts} == {
        "max_num_seqs 8\nrate 1",
        "max_num_seqs 16\nrate 1",
    }
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert names == ["meets every SLO", "misses an SLO", "overloaded", "efficient"]


def test_without_objectives_points_are_stable_or_not():
    axes = plot_pareto(pd.DataFrame([row(0, 8, slo_met=None), row(1, 16, slo_met=None)])).axes[0]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["stable", "efficient"]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match=r"a\.b was not swept; choose from scheduler"):
        plot_slo_region(by_batch(), LIMITS, ["a.b"])
    with pytest.raises(InputError, match="give limits in slo"):
        plot_slo_region(by_batch(), {})
