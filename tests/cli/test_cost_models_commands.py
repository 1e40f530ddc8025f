"""`servecast cost` and `servecast calibrate` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cost_models import StepCost, calibration
from cost_models.errors import InputError
from simulator.cli.calibrate import calibrate
from simulator.cli.cost import cost

app = typer.Typer()
app.command()(cost)
app.command()(calibrate)


def servecast(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_is_the_step_and_its_operations() -> None:
    told = json.loads(
        servecast(
            *("cost", "llama-3.1-70b", "--gpu", "h100_sxm", "--tp", "4"),
            *("--decode", "32x2048", "--decode", "1x9000", "--prefill", "512@1024", "--json"),
        )
    )
    step = StepCost.load("llama-3.1-70b", "h100_sxm", 4).step([2048] * 32 + [9000], [(512, 1024)])
    assert told["step_ms"] == step.total_s * 1e3
    assert told["gpu_ms"] + told["host_ms"] == pytest.approx(told["step_ms"])
    assert sum(op["ms"] for op in told["ops"]) == pytest.approx(told["gpu_ms"])
    assert {"name", "ms", "share", "pct_of_peak", "source"} <= set(told["ops"][0])


def test_the_table_says_what_sets_the_pace() -> None:
    told = servecast("cost", "llama-3.1-8b", "--gpu", "h100_sxm", "--decode", "1x512")
    assert "memory-bound" in told
    assert "decode attention" in told
    assert "aiconfigurator-core" in told
    told = servecast("cost", "llama-3.1-8b", "--gpu", "h100_sxm", "--prefill", "8192")
    assert "compute-bound" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["llama-3.1-8b", "--gpu", "h100", "--decode", "1x1"], "did you mean 'h100_sxm'"),
        (["llama-3.1-8b", "--gpu", "l40s", "--decode", "8"], "sequences x context"),
        (["llama-3.1-8b", "--gpu", "l40s", "--decode", "0x8"], "sequences x context"),
        (["llama-3.1-8b", "--gpu", "l40s", "--prefill", "@8"], "chunk@past"),
        (["llama-3.1-8b", "--gpu", "l40s", "--tp", "0"], "tensor_parallel 0"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told) as refusal:
        servecast("cost", *arguments)
    assert "\n" not in str(refusal.value)


def test_calibrate_writes_coefficients_and_reports_their_error(tmp_path: Path) -> None:
    pytest.importorskip("aiconfigurator_core")
    out = tmp_path / "a100.json"
    arguments = ("calibrate", "aiconfigurator-core", "--gpu", "a100_sxm", "--out", str(out))
    told = servecast(*arguments)
    assert "left-out widths" in told
    assert "eager, not in a graph: 69" in told
    first = out.read_bytes()
    servecast(*arguments)
    assert out.read_bytes() == first


def test_cost_draws_its_step(tmp_path: Path) -> None:
    file = tmp_path / "cost.png"
    arguments = ["cost", "qwen3-8b", "--gpu", "h100_sxm", "--decode", "8x1024"]
    result = CliRunner().invoke(app, [*arguments, "--plot", str(file)])
    assert result.exit_code == 0, result.output
    assert file.read_bytes().startswith(b"\x89PNG")
    result = CliRunner().invoke(app, [*arguments, "--plot", str(tmp_path / "cost.gif")])
    assert result.exit_code != 0
    assert "give a .png" in str(result.exception)


def test_cost_of_a_gpu_that_nobody_measured() -> None:
    arguments = ["cost", "llama-3.1-8b", "--gpu", "rtx_4090"]
    result = CliRunner().invoke(app, arguments)
    assert "no calibration of rtx_4090" in str(result.exception)
    result = CliRunner().invoke(app, [*arguments, "--datasheet"])
    assert result.exit_code == 0, result.output
    assert "efficiencies of" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("flag", "value", "sentence"),
    [
        ("--decode", "1x200000", "200000 tokens is more than the 131072 positions"),
        ("--prefill", "512@131000", "131512 tokens is more than the 131072 positions"),
        ("--decode", "1000000000x3", "at most 65536 sequences"),
    ],
)
def test_a_step_that_no_engine_can_run_is_not_priced(flag: str, value: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        servecast("cost", "llama-3.1-8b", "--gpu", "h100_sxm", flag, value)


def test_every_calibration_is_listed_with_its_error() -> None:
    from simulator.cli.catalogue import list_entries

    listing = typer.Typer()
    listing.command()(list_entries)
    told = CliRunner().invoke(listing, ["calibrations"], env={"COLUMNS": "160"}).output
    found = calibration.load("h100_sxm", "vllm", "bf16").report["gemm"]["left-out widths"]
    assert f"{found['mape_pct']:.1f} / {found['p95_pct']:.0f}" in told
    for gpu, engine, dtype in calibration.shipped():
        assert f"{gpu} {engine} {dtype} " in told
    assert "h200_sxm vllm mla fp8" in told
    assert "h200_sxm vllm experts mxfp4" in told


def test_calibrating_needs_one_source(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out.json"))
    for arguments in ([], ["aiconfigurator-core", "--from-benchmark", "a.json"]):
        with pytest.raises(InputError, match="either a PROFILE of kernels or results"):
            CliRunner().invoke(app, ["calibrate", *arguments, *out], catch_exceptions=False)
    with pytest.raises(InputError, match="--gpu: say which GPU"):
        CliRunner().invoke(app, ["calibrate", "a.csv", *out], catch_exceptions=False)
    with pytest.raises(InputError, match=r"no\.json: no such file"):
        CliRunner().invoke(
            app, ["calibrate", "--from-benchmark", "no.json", *out], catch_exceptions=False
        )


def test_a_step_of_a_model_that_does_not_fit_says_so() -> None:
    step = ("--gpu", "h100_sxm", "--json")
    # 70.6e9 parameters of 2 bytes are 131 GiB, of which two 80 GB GPUs hold half each.
    alone = json.loads(servecast("cost", "llama-3.1-70b", *step))["does_not_fit"]
    assert "weights of 131.4 GiB" in alone
    assert "tensor_parallel 2" in alone
    assert (
        json.loads(servecast("cost", "llama-3.1-70b", "--tp", "4", *step))["does_not_fit"] is None
    )
    printed = " ".join(servecast("cost", "llama-3.1-70b", "--gpu", "h100_sxm").split())
    assert f"note: {alone}" in printed


def test_a_step_of_more_sequences_than_the_engine_takes_is_refused() -> None:
    limit = ("--gpu", "h100_sxm", "--max-num-seqs", "4")
    servecast("cost", "llama-3.1-8b", *limit, "--decode", "3x64", "--prefill", "64")
    with pytest.raises(InputError, match="--max-num-seqs 4: the step has 5 sequences"):
        servecast("cost", "llama-3.1-8b", *limit, "--decode", "4x64", "--prefill", "64")
