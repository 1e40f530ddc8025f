"""`servecast capacity` from the outside."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from simulator.cli.main import app

# 20 ms per step whatever is in it, four seats, two tokens each: at most 4 / 0.04 = 100 requests/s.
FAST = [
    "capacity", "seed-linear", "--no-changes", "--replicates", "2",
    "--set", "workload.num_requests=800", "--set", "workload.lengths.output_tokens=2",
    "--set", "scheduler.max_num_seqs=4", "--set", "cost_model.t_mem_s=0.02",
    "--set", "cost_model.t_flop_s_per_token=0", "--set", "scheduler.async_scheduling=false",
]  # fmt: skip


def invoke(*more):
    return CliRunner().invoke(app, [*FAST, *more])


def test_json_has_what_is_promised():
    result = invoke("--slo", "p99_ttft_ms=200", "--model-error", "0.05", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    promised = (
        "max_rate_per_replica rate_ci95 replicas gpus replicas_ci95 model_band state limits "
        "headroom next_change cost_per_million_output_tokens"
    )
    assert set(promised.split()) <= set(found)
    assert 50 < found["max_rate_per_replica"] < 100
    low, high = found["model_band"]
    assert low < found["max_rate_per_replica"] < high


def test_text_begins_with_the_answer():
    result = invoke("--slo", "p99_ttft_ms=200", "--rate", "150", "--what-if", "traffic,outputs")
    assert result.exit_code == 0, result.output
    first = " ".join(result.stdout.split("\n\n")[0].split())
    assert first.startswith("At 150 req/s, 2 h100_sxm meet p99 TTFT 200 ms (sampling CI 2–")
    assert "error of these step costs is not measured" in " ".join(result.stdout.split())
    assert "✗ outputs half as long again: does not carry 150 req/s" in result.stdout


def test_check_is_the_exit_code():
    asked = ["--slo", "p99_ttft_ms=200", "--check", "--set", "workload.arrivals.rate"]
    assert invoke(*asked[:-2], "--set", "workload.arrivals.rate=20").exit_code == 0
    assert invoke(*asked[:-2], "--set", "workload.arrivals.rate=120").exit_code == 3
    assert invoke("--slo", "p99_ttft_ms=200", "--rate", "150", "--check").exit_code == 0
    broke = invoke("--slo", "p99_ttft_ms=200", "--rate", "150", "--check", "--budget", "3")
    assert broke.exit_code == 3
    assert "over the budget: $5.98/h" in broke.stderr


def test_one_gpu_carries_and_a_shortfall_is_called_one():
    result = invoke("--slo", "p99_ttft_ms=200", "--set", "workload.arrivals.rate=120")
    first = " ".join(result.stdout.split("\n\n")[0].split())
    assert first.startswith("1 h100_sxm carries ")
    assert "% short of 120 req/s;" in first
    assert "headroom" not in first


def test_given_step_costs_are_not_asked_about_other_machines():
    result = invoke("--slo", "p99_ttft_ms=200", "--what-if", "gpu,fp8,model")
    said = " ".join(result.stdout.split())
    assert said.count("step costs are given (cost_model linear) and know of no other") == 3
    assert "✓ weights in fp8" not in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "capacity needs a limit"),
        (["--slo", "p99_ttft=200"], "p99_ttft"),
        (["--slo", "chat.p99_ttft_ms=200"], "'chat' is no class of the workload, which has none"),
        (["--slo", "p99_ttft_ms=200", "--rate", "0"], "give a number above 0"),
        (["--slo", "p99_ttft_ms=200", "--rate", "5", "--max-rate"], "opposite things"),
        (["--slo", "p99_ttft_ms=200", "--gpus", "3", "--set", "cluster.tensor_parallel=2"],
         "no multiple of the 2 GPUs of a replica"),
        (["--slo", "p99_ttft_ms=200", "--search", "scheduler.max_seqs=3,4"],
         "--search: scheduler.max_seqs"),
        (["--slo", "p99_ttft_ms=200", "--rate", "inf"], "--rate inf: give a number above 0"),
        (["--slo", "p99_ttft_ms=200", "--budget", "-1"], "--budget -1: give a number above 0"),
        (["--slo", "p99_ttft_ms=200", "--budget", "nan"], "--budget nan"),
        (["--slo", "p99_ttft_ms=200", "--model-error", "inf"], "--model-error inf"),
        (["--slo", "p99_ttft_ms=200", "--rate", "1e9"], "not even 10,000 replicas"),
        (["--slo", "p99_ttft_ms"], "--slo p99_ttft_ms: give a key and a limit"),
        (["--slo", "p99_ttft_ms=200", "--what-if", "more: scheduler.max_seqs=3"],
         "--what-if more: scheduler.max_seqs"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(options, sentence):
    from simulator.errors import InputError

    result = invoke(*options)
    assert isinstance(result.exception, InputError)
    assert sentence in str(result.exception)
    assert "\n" not in str(result.exception)
