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


def test_replicates_tell_a_difference_from_chance(file, tmp_path):
    result = compare(
        file, "--out", tmp_path, "--replicates", 3, "--jobs", 1,
        "--variant", "one: scheduler.max_num_seqs=2", "--variant", "same: scheduler.max_num_seqs=2",
        "--variant", "large: scheduler.max_num_seqs=64",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "the same 120 requests through each variant, in each of 3 replicates" in result.stdout
    text = " ".join(result.stdout.split())
    assert "- same cannot be told from one in Duration" in text
    assert "- large differs from one in" in text
    written = json.loads((tmp_path / "compare.json").read_text())
    assert written["replicates"] == 3
    one, same, large = written["variants"].values()
    assert one["replicates"][0]["scenario_hash"] == one["replicates"][1]["scenario_hash"]
    assert one["replicates"][0]["mean_e2el_ms"] != one["replicates"][1]["mean_e2el_ms"]
    assert same["differences"]["mean_e2el_ms"] == {
        "estimate": 0.0, "low": 0.0, "high": 0.0, "significant": False,
    }  # fmt: skip
    pairs = [
        b["mean_e2el_ms"] - a["mean_e2el_ms"]
        for a, b in zip(one["replicates"], large["replicates"], strict=True)
    ]
    found = large["differences"]["mean_e2el_ms"]
    assert found["estimate"] == pytest.approx(sum(pairs) / 3)
    assert found["low"] <= found["estimate"] <= found["high"] < 0
    assert found["significant"] is True


def test_one_run_of_each_says_that_it_proves_little(file, tmp_path):
    result = compare(file, *SCHEDULERS, "--out", tmp_path)
    assert "--replicates 5" in result.stdout


def test_each_variant_answers_for_its_own_objectives(file, tmp_path):
    result = compare(
        file, "--out", tmp_path, "--variant", "easy: slo.p99_ttft_ms=1e6",
        "--variant", "hard: slo={p99_ttft_ms: 1e6, p50_ttft_ms: 0.001}",
    )  # fmt: skip
    row = next(line for line in result.stdout.splitlines() if "Objectives met" in line)
    assert row.split() == ["Objectives", "met", "1", "of", "1", "1", "of", "2"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--schedulers", "static,contnuous"), "--schedulers contnuous: scheduler.policy is"),
        (("--variant", "a:", "--variant", "b: seed=-1"), "--variant b: seed is -1"),
        ((*SCHEDULERS, "--seed", "-1"), "--seed: seed is -1"),
        (
            ("--variant", "a:", "--variant",
             "b: workload.classes=[{name: x, share: 1.0, slo: {p99_itl_ms: 5}}]"),
            "x has the limit p99_itl_ms",
        ),
    ],
)  # fmt: skip
def test_messages_name_the_option_and_the_variant(file, arguments, sentence):
    result = compare(file, *arguments)
    assert isinstance(result.exception, InputError)
    assert sentence in str(result.exception)


def cells(stdout, title):
    """Figures of a row of the table, ratios left out."""
    row = next(line for line in stdout.splitlines() if line.strip().startswith(title))
    numbers = [cell.replace(",", "") for cell in row.split(title)[1].split()]
    return [float(number) for number in numbers[:1] + numbers[1::2]]


def test_fewer_bytes_per_token_lift_the_cap_that_kv_memory_sets(tmp_path):
    # 2 (K and V) x 32 layers x heads x 128 x bytes a token: 32 heads of llama-2-7b in 2 bytes, 8
    # of llama-3.1-8b in 2 and in 1.  Their weights differ by 1.3e9 x 2 bytes of 80 GB.
    scenario = SCENARIO | {
        "workload": SCENARIO["workload"] | {"arrivals": {"process": "burst"}, "num_requests": 400},
        "kv_cache": {"max_model_len": 4096, "gpu_memory_utilization": 0.5},
    }
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    result = compare(
        path, "--out", tmp_path / "out",
        "--variant", "mha: model=llama-2-7b",
        "--variant", "gqa: model=llama-3.1-8b",
        "--variant", "gqa fp8: model={name: llama-3.1-8b, kv_dtype: fp8}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    mha, gqa, fp8 = cells(result.stdout, "KV capacity (tokens)")
    assert gqa == pytest.approx(4 * mha, rel=0.2)
    assert fp8 == pytest.approx(2 * gqa, rel=0.01)
    batch = cells(result.stdout, "Mean batch size")
    assert batch[0] < batch[1] / 2
    assert batch[1] < batch[2]
