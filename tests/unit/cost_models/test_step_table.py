"""Prices from a user's table, by hand; and from a datasheet, near those of GPUs measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cost_models import StepCost
from cost_models.errors import InputError
from simulator import Scenario, simulate

BY_TOKENS = "tokens,step_ms\n1,10\n100,20\n300,60\n"
WITH_DECODES = """tokens,decode_seqs,context,step_ms
1,,,10
512,,,60
,1,128,10
,1,1024,11
,8,128,12
,8,1024,20
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "steps.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_linear_between_the_rows(tmp_path: Path) -> None:
    cost = StepCost.table(written(tmp_path, BY_TOKENS))
    # 100 to 300 tokens take 20 to 60 ms: 0.2 ms per token.
    assert cost.step(prefills=[(200, 0)]).total_s == pytest.approx(0.040)
    assert cost.step([50], [(99, 0)]).total_s == pytest.approx(0.020)
    assert cost.step([7]).total_s == pytest.approx(0.010)
    assert cost.step([7]).host_s == 0.0


def test_beyond_the_rows_is_refused_unless_allowed(tmp_path: Path) -> None:
    path = written(tmp_path, BY_TOKENS)
    with pytest.raises(InputError, match="end at a step of 300, and steps can have 301"):
        StepCost.table(path).step(prefills=[(301, 0)])
    allowed = StepCost.table(path, allow_extrapolation=True)
    assert allowed.step(prefills=[(400, 0)]).total_s == pytest.approx(0.080)
    with pytest.raises(InputError, match="end at a context of 1024"):
        StepCost.table(written(tmp_path, WITH_DECODES), max_context=2048)


def test_decodes_by_sequences_and_context(tmp_path: Path) -> None:
    cost = StepCost.table(written(tmp_path, WITH_DECODES))
    assert cost.step([1024] * 8).total_s == pytest.approx(0.020)
    assert cost.step([128] * 8).total_s == pytest.approx(0.012)
    # Halfway from 1 to 8 sequences at 1,024: between 11 and 20 ms.
    assert cost.step([1024] * 4).total_s == pytest.approx(0.011 + 3 / 7 * 0.009)
    # A mixed step is its 512 tokens (60 ms) and what the contexts add: with 7 sequences
    # (11 + 6/7 · 9) - (10 + 6/7 · 2) ms.
    assert cost.step([1024] * 7, [(505, 0)]).total_s == pytest.approx(0.060 + 0.007)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "needed are tokens"),
        ("tokens,step_ms\n1,2\n", "has 1 rows"),
        ("tokens,step_ms\n1,2\n2,x\n", "line 3: step_ms is 'x'"),
        (WITH_DECODES.replace(",8,1024,20\n", ""), "sequences at context 1024 are missing"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        StepCost.table(written(tmp_path, text))


SCENARIO = {
    "workload": {
        "arrivals": {"process": "burst"},
        "lengths": {"distribution": "fixed", "prompt_tokens": 100, "output_tokens": 3},
        "num_requests": 1,
    },
    "model": "llama-3.1-8b",
    "scheduler": {"max_num_batched_tokens": 256, "max_num_seqs": 4},
}


def test_a_scenario_takes_a_table(tmp_path: Path) -> None:
    written(tmp_path, BY_TOKENS)
    cost_model = {"kind": "table", "path": "steps.csv"}
    found = simulate(Scenario.from_mapping({**SCENARIO, "cost_model": cost_model}, tmp_path))
    # One step of 100 tokens, two of one.
    assert found.requests["finished_s"][0] == pytest.approx(0.020 + 2 * 0.010)


def test_a_scenario_takes_your_own_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from cost_models.linear import LinearForm\n\n\n"
        "def make(model, gpu, tp):\n    return LinearForm(1e-3 * tp, 0.0)\n\n\n"
        "def broken(model, gpu, tp):\n    raise KeyError('x')\n",
        encoding="utf-8",
    )
    own = {**SCENARIO, "cost_model": {"kind": "mine.py:make"}}
    found = simulate(Scenario.from_mapping(own, tmp_path))
    assert found.requests["finished_s"][0] == pytest.approx(0.003)
    with pytest.raises(InputError, match="broken, which fails"):
        simulate(Scenario.from_mapping({**own, "cost_model": {"kind": "mine.py:broken"}}, tmp_path))
    with pytest.raises(InputError, match="has no function none"):
        simulate(Scenario.from_mapping({**own, "cost_model": {"kind": "mine.py:none"}}, tmp_path))


@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm", "a100_sxm", "b200_sxm"])
def test_a_datasheet_is_near_what_was_measured(gpu: str) -> None:
    # The GPU's own measurements are not used; single steps are 10 to 20 % off.
    guessed = StepCost.load("llama-3.1-8b", gpu, kind="datasheet")
    measured = StepCost.load("llama-3.1-8b", gpu, without=["eager_steps"])
    steps = [([1024], []), ([2048] * 32, []), ([4096] * 64, []), ([], [(4096, 0)])]
    errors = [guessed.step(*s).gpu_s / measured.step(*s).gpu_s - 1 for s in steps]
    assert np.abs(errors).mean() < 0.15
    assert "datasheet" in guessed.provenance
    assert gpu not in guessed.provenance.split("efficiencies of")[1]
