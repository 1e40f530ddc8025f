"""The table of measured accuracy is what measured runs say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cost_models.accuracy import measured
from simulator.validation.read import read
from simulator.validation.score import validate

FILES = (
    "gptoss120b_h200_vllm_conc_sweep",
    "gpustack_perf_lab",
    "inference_perf_kubecon_h100",
    "inferencex_agg_ttft_tpot",
    "llmservingsim_vllm_bench",
    "residency_vllm_qwen3_14b_h100",
)


@pytest.mark.long
def test_accuracy_is_what_validation_measures(shared):
    rows = [row for name in FILES for row in read(shared / "measured" / f"{name}.csv", {})]
    # vLLM alone: other engines' runs are of releases and settings that are hardly told.
    rows = [row for row in rows if getattr(row, "engine", "vllm") == "vllm"]
    errors: dict[tuple[str, str, str], list[float]] = {}
    for prediction in validate(rows).predictions:
        error = prediction.errors_pct.get("tpot_ms_mean")
        row = prediction.row
        if error is not None and not row.doubt:
            key = (row.gpu, row.engine, row.weight_dtype)
            errors.setdefault(key, []).append(abs(math.log(1 + error / 100)))
    table = measured()
    for group in table.groups:
        found = errors[group.gpu, group.engine, group.weight_dtype]
        assert len(found) == group.runs
        assert math.expm1(np.quantile(found, 0.75)) == pytest.approx(group.error, rel=0.05)
    every = [error for found in errors.values() for error in found]
    assert math.expm1(np.quantile(every, 0.75)) == pytest.approx(table.elsewhere, rel=0.05)
