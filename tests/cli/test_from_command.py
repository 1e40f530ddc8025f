"""`servecast from-command`: a file that runs, and says what it left out."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from simulator.cli.main import app
from simulator.errors import InputError

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 32 --enforce-eager --host ::"
BENCH = "vllm bench serve --random-input-len 100 --random-output-len 8 --num-prompts 20"


def invoke(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_file_runs(tmp_path):
    made = invoke("from-command", SERVE, BENCH, "--gpu", "l40s", "--out", tmp_path / "made.yaml")
    assert made.exit_code == 0, made.output
    text = (tmp_path / "made.yaml").read_text()
    assert "# Not simulated:\n#   --enforce-eager: the engine without CUDA graphs" in text
    assert "# Plays no part:\n#   --host: an address" in text
    ran = invoke("run", tmp_path / "made.yaml", "--json")
    assert ran.exit_code == 0, ran.output
    assert '"completed": 20' in ran.stdout
    assert '"total_input_tokens": 2000' in ran.stdout


def test_without_a_gpu_the_default_is_told():
    printed = invoke("from-command", SERVE).stdout
    assert "# No --gpu was given: cluster.gpu is the default, h100_sxm." in printed
    assert "cluster.gpu" not in invoke("from-command", SERVE, "--set", "cluster.gpu=l40s").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--gpu", "h1000"), "did you mean"),
        (("--out", "nowhere/made.yaml"), "there is no folder nowhere"),
        (("--out", "."), "is there already"),
    ],
)
def test_refusals(arguments, sentence):
    result = invoke("from-command", SERVE, *arguments)
    assert isinstance(result.exception, InputError)
    assert sentence in str(result.exception)
