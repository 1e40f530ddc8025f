"""`servecast compare`: the same requests, one table, one plot, the reasons."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from simulator.cli.main import app
from simulator.errors import InputError

SCENARIO = {
    "name": "mixed lengths",
    "workload": {
        "arrivals": {"process": "poisson", "rate": 4.0},
        "lengths": {"distribution": "azure_conv_2023"},
        "num_requests": 120,
    },
    "model": "llama-3.1-8b",
    "kv_cache": {"max_model_len": 16000},
    "scheduler": {"static": {"batch_size": 8, "stream": True}},
    "cost_model": {"kind": "linear", "t_mem_s": 0.008, "t_flop_s_per_token": 0.00003},
}
SCHEDULERS = ("--schedulers", "static,continuous,chunked_prefill")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


def compare(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_schedulers_side_by_side(file, tmp_path):
    result = compare(file, *SCHEDULERS, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "the same 120 requests through each variant" in result.stdout
    header = next(line for line in result.stdout.splitlines() if "continuous" in line)
    assert header.split() == ["static", "continuous", "×", "chunked_prefill", "×"]
    assert "Tail bubble (% of slot-steps)" in result.stdout
    assert "scheduler.policy" in result.stdout
    assert "rows that are finished" in result.stdout
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert written["baseline"] == "static"
    assert written["same_requests"] is True
    assert list(written["variants"]) == ["static", "continuous", "chunked_prefill"]
    assert written["variants"]["static"]["summary"]["completed"] == 120
    # What the policies are: whole prefills stall streams, chunks do not; static has a tail.
    static, continuous, chunked = (v["summary"] for v in written["variants"].values())
    assert static["tail_bubble_share"] > 0
    assert static["padding_share"] > 0
    assert continuous["decode_stall_share"] > 0
    assert chunked["decode_stall_share"] == 0
    assert continuous["tail_bubble_share"] == chunked["tail_bubble_share"] == 0


def test_variants_and_json(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = compare(
        file, "--variant", "small: scheduler.max_num_seqs=2", "--variant",
        "large: scheduler={max_num_seqs: 64, order: fcfs}", "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["differences"]["scheduler.max_num_seqs"] == [2, 64]
    small, large = (v["summary"] for v in found["variants"].values())
    assert small["mean_queue_ms"] > large["mean_queue_ms"]
    assert small["mean_batch_size"] <= 2
    assert (tmp_path / "compare.png").exists()
    assert not (tmp_path / "compare.json").exists()


def test_different_requests_are_said(file, tmp_path):
    result = compare(
        file, "--out", tmp_path, "--variant", "slow: workload.arrivals.rate=2",
        "--variant", "fast: workload.arrivals.rate=4",
    )  # fmt: skip
    assert "the same 120" not in result.stdout
    assert "sent different requests" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "at least two variants and got 0"),
        (("--schedulers", "static"), "at least two variants and got 1"),
        (("--schedulers", "static,static"), "two variants are called 'static'"),
        (("--variant", "scheduler.order=sjf"), "has no name"),
        (("--variant", "a: fcfs", "--variant", "b:"), "'fcfs' sets nothing"),
        (("--schedulers", "static,contnuous"), "contnuous"),
    ],
)
def test_bad_variants_are_refused(file, arguments, sentence):
    result = compare(file, *arguments)
    assert isinstance(result.exception, InputError)
    assert sentence in str(result.exception)
