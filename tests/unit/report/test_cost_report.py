"""Money and energy in the reports: lines, sentences, and what is left out."""

from __future__ import annotations

import pytest
from recordings import recording, req, resolved, step

from simulator.metrics.summary import summarize
from simulator.report.cost import class_costs, cost_lines, energy, reservation
from simulator.report.html import sections

ROWS = [
    req(0.0, prompt=10, output=3, admitted=0.0, first=0.05, finished=0.0703, class_id=0),
    req(0.0, prompt=30, output=2, admitted=0.0, first=0.05, finished=0.0602, class_id=1),
]
STEPS = [
    step(0.0, 0.05, prefill_seqs=2, prefill_tokens=40),
    step(0.05, 0.0602, decode_seqs=2, context_tokens=42),
    step(0.0602, 0.0703, decode_seqs=1, context_tokens=12),
]


def summary(*overrides, classes=("a", "b")):
    rows = [row | {"class_id": row["class_id"] % len(classes)} for row in ROWS]
    return summarize(recording(rows, STEPS, class_names=classes), resolved(*overrides))


def test_a_line_for_each_class():
    found = summary("cluster.price_per_gpu_hour=3.6")
    lines = cost_lines(found)
    assert lines[lines.index("------------------Cost by class-------------------") + 1 :] == [
        "      % of bill   $/M input  $/M output   $/M total",
        "a         39.40        2.77        9.23        2.13",  # 27.7 of 70.3 ms
        "b         60.60        1.42       21.30        1.33",
    ]
    assert '<th scope="row">b</th><td>60.60</td>' in sections.classes(found)
    assert class_costs(summary(classes=("a",))) == []


def test_carbon_only_where_the_grid_is_known():
    assert [title for title, _ in energy(summary())] == [
        "Power, estimate (W per GPU)", "Energy, estimate (Wh/M output tokens)"
    ]  # fmt: skip
    power, per_million, carbon = energy(summary("cluster.grid_co2_g_per_kwh=400"))
    assert carbon == ("CO2, estimate (g/M output tokens)", pytest.approx(per_million[1] * 0.4))
    joules = power[1] * 0.0703
    assert per_million[1] == pytest.approx(joules / 3600 / 5 * 1e6)


def test_when_to_reserve():
    # One replica that works all the time: $3.60 / h for 70.3 ms and 5 tokens is $14.06/M.
    cheaper = summary("cluster.price_per_gpu_hour=3.6", "cluster.reserved_price_per_gpu_hour=1.8")
    assert reservation(cheaper) == (
        "A GPU reserved at $1.8/h is cheaper than one on demand at $3.6/h when it is needed more "
        "than 50% of the time: with 1 of 1 replica reserved, output tokens cost $7.03/M."
    )
    dearer = summary("cluster.price_per_gpu_hour=1", "cluster.reserved_price_per_gpu_hour=2")
    assert reservation(dearer).startswith("Reserved at $2/h, a GPU is never cheaper than on demand")
    assert reservation(summary("cluster.price_per_gpu_hour=1")) == ""


def test_nothing_completed():
    found = summarize(recording([req(0.0)], end_s=1.0), resolved("cluster.grid_co2_g_per_kwh=400"))
    lines = [line.split() for line in cost_lines(found)]
    assert [line[-1] for line in lines if line[0] in ("CO2,", "Energy,", "Cost")] == ["n/a"] * 5


def test_free_gpus():
    free = summary("cluster.price_per_gpu_hour=0", "cluster.reserved_price_per_gpu_hour=0")
    assert free["cost"] == 0
    assert "never cheaper" in reservation(free)
