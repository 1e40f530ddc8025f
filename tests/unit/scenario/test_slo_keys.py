"""SLO keys become typed limits."""

from __future__ import annotations

from simulator.scenario import GoodputThreshold, SloSpec, SloTarget


def test_keys_are_parsed() -> None:
    slo = SloSpec.model_validate(
        {"p99_ttft_ms": 500, "mean_itl_ms": 20.5, "p99.9_queue_ms": 3, "tpot_ms": 50}
    )
    assert slo.targets == (
        SloTarget("p99_ttft_ms", "ttft", 99.0, 500.0),
        SloTarget("mean_itl_ms", "itl", None, 20.5),
        SloTarget("p99.9_queue_ms", "queue", 99.9, 3.0),
    )
    assert slo.goodput == (GoodputThreshold("tpot_ms", "tpot", 50.0),)
    assert not SloSpec()
    assert slo
