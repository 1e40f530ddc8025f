"""SLO verdicts and goodput, over all requests and by class."""

from __future__ import annotations

import pytest
from recordings import recording, req, resolved

from simulator.errors import InputError
from simulator.metrics import missed, summarize
from simulator.metrics.slo import goodput_limits_s, refuse_unmeasurable
from simulator.scenario import Scenario, SloSpec

CLASSES = "workload.classes=[{name: chat, share: 0.5, slo: {p99_ttft_ms: 100}}, \
{name: batch, share: 0.5, slo: {mean_e2el_ms: 5000, ttft_ms: 4000}}]"


def served(arrival, ttft, e2el, output=3, **more):
    return req(
        arrival, 10, output, admitted=arrival, first=arrival + ttft, finished=arrival + e2el, **more
    )


ROWS = [
    served(0.0, 0.05, 1.05),  # TPOT 0.5 s
    served(0.0, 0.20, 0.20, output=1),
    served(0.0, 0.30, 4.30),  # TPOT 2 s
    served(0.0, 1.00, 2.00),  # TPOT 0.5 s
]


def test_verdicts_compare_percentiles_and_means():
    summary = summarize(
        recording(ROWS, gaps=[(0.5, 4), (2.0, 2)]),
        resolved("slo={p50_ttft_ms: 250, mean_tpot_ms: 999, p99.9_itl_ms: 2000, mean_itl_ms: 999}"),
    )
    found = {v["metric"]: (round(v["value_ms"], 6), v["met"]) for v in summary["slo"]}
    assert found == {
        "p50_ttft_ms": (250.0, True),  # between 0.2 and 0.3; the limit itself is allowed
        "mean_tpot_ms": (1000.0, False),
        "p99.9_itl_ms": (2000.0, True),
        "mean_itl_ms": (1000.0, False),
    }
    assert [v["metric"] for v in missed(summary)] == ["mean_tpot_ms", "mean_itl_ms"]


def test_goodput_needs_every_limit_met():
    rec = recording([*ROWS, req(0.0, reject="never_fits")])
    summary = summarize(rec, resolved("slo={ttft_ms: 500, tpot_ms: 600}"))
    # Row 0 and the one-token row are good; row 2 misses TPOT, row 3 TTFT; one was rejected.
    assert summary["request_goodput"] == pytest.approx(2 / 4.30)
    assert summary["goodput_share"] == pytest.approx(2 / 5)


def test_percentile_limits_stand_in_for_goodput_limits():
    spec = SloSpec.model_validate({"p50_ttft_ms": 100.0, "p99_ttft_ms": 500.0, "mean_e2el_ms": 1.0})
    assert goodput_limits_s(spec) == {"ttft": 0.5}
    assert summarize(recording(ROWS), resolved("slo.p99_ttft_ms=500"))[
        "goodput_share"
    ] == pytest.approx(3 / 4)


def test_classes_have_their_own_figures_and_limits():
    rows = [row | {"class_id": index % 2} for index, row in enumerate(ROWS)]
    summary = summarize(
        recording(rows, class_names=("chat", "batch")), resolved(CLASSES, "slo.ttft_ms=250")
    )
    chat, batch = summary["classes"]["chat"], summary["classes"]["batch"]
    assert chat["completed"] == batch["completed"] == 2
    assert chat["mean_ttft_ms"] == pytest.approx(175)  # 50 and 300 ms
    assert [(v["class_name"], v["metric"], v["met"]) for v in chat["slo"]] == [
        ("chat", "p99_ttft_ms", False)
    ]
    assert batch["slo"][0]["value_ms"] == pytest.approx(1100)  # 0.2 and 2 s
    # Chat is held to its own 100 ms, batch to its 4 s in place of the scenario's 250 ms.
    assert chat["goodput_share"] == pytest.approx(1 / 2)
    assert batch["goodput_share"] == pytest.approx(1.0)
    assert len(missed(summary)) == 1


def test_one_class_is_no_table():
    assert summarize(recording(ROWS), resolved())["classes"] == {}


def test_inter_token_limit_of_a_class_is_refused():
    scenario: Scenario = resolved(
        "workload.classes=[{name: chat, share: 1.0, slo: {p99_itl_ms: 50}}]"
    ).scenario
    with pytest.raises(InputError, match="chat has the limit p99_itl_ms"):
        refuse_unmeasurable(scenario)
    refuse_unmeasurable(resolved(CLASSES).scenario)
