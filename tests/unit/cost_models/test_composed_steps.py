"""Whole steps composed of measured kernels: how near the shipped calibrations come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cost_models import StepCost

NAMES = {
    "llama3.2-3b": "llama-3.2-3b",
    "qwen3-4b": "qwen3-4b",
    "qwen3-8b": "qwen3-8b",
    "qwen3-14b": "qwen3-14b",
    "mistral-24b": "mistral-small-24b",
}

# GPU: mean absolute error and its 95th percentile, at most.
ALLOWED = {
    "h100_sxm": (0.04, 0.10),
    "h200_sxm": (0.04, 0.10),
    "b200_sxm": (0.04, 0.10),
    "a100_sxm": (0.05, 0.12),
    "l40s": (0.05, 0.12),
}


@pytest.mark.parametrize(("gpu", "allowed"), ALLOWED.items())
def test_steps_composed_of_measured_kernels(
    shared: Path, gpu: str, allowed: tuple[float, float]
) -> None:
    path = shared / "measured" / "composed_steps_dev.csv"
    if not path.is_file():
        pytest.skip(f"no {path}")
    steps = pd.read_csv(path)
    steps = steps[steps["gpu"] == gpu]
    errors = []
    for (name, tp), rows in steps.groupby(["model", "tp"]):
        cost = StepCost.load(NAMES[name], gpu, int(tp))
        for row in rows.itertuples():
            step = cost.step(
                [row.decode_context_each] * row.num_decodes,
                [(row.prefill_chunk_each, row.prefill_past_each)] * row.num_prefills,
            )
            errors.append(step.gpu_s * 1e6 / row.gpu_us - 1)
    size = np.abs(errors)
    assert len(size) > 50
    assert size.mean() <= allowed[0]
    assert np.quantile(size, 0.95) <= allowed[1]
