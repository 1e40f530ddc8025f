"""Profiling end to end on a CPU, and the batches that it times."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from cost_models import catalog
from cost_models.errors import InputError
from cost_models.profiler.cases import SIZES, case, cases, contexts
from simulator.cli.main import app

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
HEADS = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 32}


def decode(seqs: int, context: int, longest: int, shape: str) -> list[int]:
    return contexts(
        case("decode", **HEADS, seqs=seqs, context=context, longest=longest, shape=shape)
    )


def test_uneven_batches_have_the_mean_and_the_longest_that_they_are_named_for() -> None:
    assert decode(4, 100, 100, "even") == [100] * 4
    assert decode(4, 100, 250, "one_long") == [250, 50, 50, 50]
    assert decode(5, 100, 180, "spread") == [180, 140, 100, 60, 20]
    for of in cases(catalog.model("llama-3.1-8b"), 1, "dense"):
        if of.op == "decode":
            batch = contexts(of)
            assert len(batch) == of["seqs"]
            assert max(batch) == batch[0] == of["longest"]
            assert sum(batch) == pytest.approx(of["seqs"] * of["context"], rel=0.01)


def test_a_minimal_profile_has_about_two_hundred_cases() -> None:
    found = cases(catalog.model("llama-3.1-8b"), 1, "minimal")
    assert 150 <= len(found) <= 250
    assert {of.op for of in found} == {"gemm", "norm", "activation", "decode", "prefill", "mixed"}
    reduced = [of for of in cases(catalog.model("llama-3.1-8b"), 4) if of.op == "all_reduce"]
    assert len(reduced) == len(SIZES["minimal"].reduce_tokens)
    with pytest.raises(InputError, match="not latent attention"):
        cases(catalog.model("deepseek-v3"), 8)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.json"
    path.write_text(json.dumps(TINY))
    return path


def profile(model: Path, out: Path, tp: int) -> str:
    pytest.importorskip("torch", reason="profiling needs torch")
    arguments = ["profile", str(model), "--device", "cpu", "--density", "quick", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--tp", str(tp)])
    if isinstance(result.exception, InputError):
        return str(result.exception)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def profiled(model: Path) -> Path:
    out = model.parent / "cpu.csv"
    profile(model, out, tp=2)
    return out


def test_a_profile_goes_on_where_it_was_broken_off(
    model: Path, profiled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "cpu.csv"
    lines = profiled.read_text().splitlines()
    table = pd.read_csv(profiled, comment="#")
    assert len(table) == len(cases(catalog.model(str(model)), 2, "quick"))
    assert (table["us"] > 0).all()
    kept = lines[:-10]
    out.write_text("\n".join(kept) + "\n")
    assert f"{len(table)} cases" in profile(model, out, tp=2)
    again = out.read_text().splitlines()
    assert again[: len(kept)] == kept
    assert len(again) == len(lines)
    assert "holds a profile whose tensor_parallel is 2, not 1" in profile(model, out, tp=1)


def test_a_profile_can_be_calibrated_from(profiled: Path, tmp_path: Path) -> None:
    fitted = tmp_path / "cpu.json"
    table = pd.read_csv(profiled, comment="#")
    assert set(table[table["op"] == "all_reduce"]["tp"]) == {2}
    arguments = [str(profiled), "--gpu", "h100_sxm", "--out", str(fitted)]
    result = CliRunner().invoke(app, ["calibrate", *arguments])
    assert result.exit_code == 0, result.output
    report = json.loads(fitted.read_text())
    assert "effects" not in report  # too few such batches for a fit
    assert len(report["all_reduce"][0]["elements"]) == 2
