"""Which points are efficient, by hand, and against the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.planning.sweep import Point
from simulator.planning.sweep.table import efficient, table


def test_efficient_points_by_hand():
    values = np.array([[1, 9], [5, 5], [4, 5], [5, 4], [9, 1], [0, 0], [5, 5]], float)
    assert efficient(values).tolist() == [True, True, False, False, True, False, True]
    assert efficient(np.zeros((0, 2))).tolist() == []


@given(arrays(np.float64, st.tuples(st.integers(0, 12), st.just(2)), elements=st.integers(0, 4)))
def test_efficient_is_its_definition(values):
    def beaten(row):
        return any((other >= row).all() and (other > row).any() for other in values)

    assert efficient(values).tolist() == [not beaten(row) for row in values]


def outcome(throughput, tpot_ms, state="STABLE", met=True):
    summary = {
        "name": "x", "output_throughput": throughput, "mean_gpus": 2, "median_tpot_ms": tpot_ms,
        "state": state, "limits": [{"resource": "host", "share": 0.5}], "scenario_hash": "ab",
        "classes": {"gold": {"slo": [
            {"class_name": "gold", "metric": "p99_ttft_ms", "value_ms": 7.0, "met": met}
        ]}},
        "slo": [{"class_name": None, "metric": "p99.9_e2el_ms", "value_ms": 9.0, "met": True}],
    }  # fmt: skip
    return {"summary": summary, "provenance": "measured"}


def test_rows_of_the_table():
    points = [Point(0, {"tp": 1}), Point(1, {"tp": 2}), Point(2, {"tp": 4})]
    rows = [
        (0, 0, outcome(100.0, 10.0)),
        (0, 1, outcome(300.0, 10.0, met=False)),
        (1, 0, outcome(900.0, 20.0)),
        (1, 1, outcome(900.0, 20.0, state="OVERLOADED")),
        (2, 0, {"error": "too large."}),
        (2, 1, {"error": "too large."}),
    ]
    frame = table(points, rows)
    assert list(frame)[:5] == ["point", "replicate", "tp", "status", "error"]
    assert list(frame)[-2:] == ["pareto", "scenario_hash"]
    assert frame["output_tokens_per_s_per_gpu"].tolist()[:3] == [50.0, 150.0, 450.0]
    assert frame["output_tokens_per_s_per_user"].tolist()[:3] == [100.0, 100.0, 50.0]
    assert frame["slo_met"].tolist()[:3] == [True, False, True]
    assert frame["slo.gold.p99_ttft_ms"].tolist()[:2] == [7.0, 7.0]
    assert frame["slo.p99.9_e2el_ms"].tolist()[:2] == [9.0, 9.0]
    assert frame["limiting_resource"].tolist()[0] == "host"
    # Point 1 is faster in tokens per GPU, but one of its replicates is overloaded.
    assert frame["pareto"].tolist() == [True, True, False, False, False, False]
    assert frame["status"].tolist()[4:] == ["failed", "failed"]
    assert frame["error"].tolist()[4] == "too large."


def test_a_column_of_mixed_values_is_text():
    spec = {"process": "poisson", "rate": 3.0}
    points = [
        Point(0, {"policy": "static", "x": [1], "arrivals": spec}),
        Point(1, {"policy": None, "x": 2, "arrivals": None}),
    ]
    frame = table(points, [(0, 0, outcome(1.0, 1.0)), (1, 0, outcome(1.0, 1.0))])
    assert frame["x"].tolist() == ["[1]", "2"]
    # As one would write them after --set key=.
    assert frame["policy"].tolist() == ["static", "null"]
    assert frame["arrivals"].tolist() == ["{process: poisson, rate: 3.0}", "null"]
