"""Predictions of another tool on the same rows."""

from __future__ import annotations

import pytest

from simulator.validation import score
from simulator.validation.measured import Measured


def row(**changes: object) -> Measured:
    facts = {
        "where": "a",
        "engine": "vllm",
        "engine_version": "0.12",
        "gpu": "h100_sxm",
        "model": "qwen3-8b",
        "weight_dtype": "bf16",
        "kv_dtype": "bf16",
        "tp": 1,
        "load": "closed_loop",
        "load_value": 8.0,
        "prompt_tokens": (1000, 1000),
        "output_tokens": (500, 500),
        "results": {"tpot_ms_mean": 8.0, "ttft_ms_mean": 50.0, "makespan_s": 9.0},
    }
    return Measured(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_decode_reads_the_weights_at_least() -> None:
    pytest.importorskip("aiconfigurator_core")
    from simulator.validation.aiconfigurator import predict

    found = predict(row())
    weights_ms = 1e3 * 16.4e9 / 3.35e12  # 8.2e9 parameters in bf16 at the datasheet's pace
    assert weights_ms < found["tpot_ms_mean"] < 4 * weights_ms
    assert found["ttft_ms_mean"] > 0


def test_what_it_has_no_answer_for_is_left_open() -> None:
    pytest.importorskip("aiconfigurator_core")
    from simulator.validation.aiconfigurator import predict

    assert predict(row(load="poisson")) == {}
    assert predict(row(gpu="rtx_4090")) == {}


def test_its_errors_stand_beside_ours() -> None:
    found = score.Prediction(
        row(),
        {"tpot_ms_mean": 8.4, "ttft_ms_mean": 40.0, "makespan_s": 9.0},
        {"tpot_ms_mean": 10.0},
    )
    (group,) = score.by_group([found])
    assert group["errors"]["tpot_ms_mean"]["bias_pct"] == pytest.approx(5)
    assert group["aiconfigurator"]["tpot_ms_mean"]["bias_pct"] == pytest.approx(25)
    assert "ttft_ms_mean" not in group["aiconfigurator"]
