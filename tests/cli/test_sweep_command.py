"""`servecast sweep`: outcomes are kept, gone on with, and the same from every executor."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from simulator import Scenario
from simulator import sweep as sweep_in_python
from simulator.cli.main import app
from simulator.errors import InputError

SCENARIO = {
    "name": "grid",
    "workload": {"trace": {"path": "trace.csv"}},
    "model": "llama-3.1-8b",
    "kv_cache": {"max_model_len": 4000},
    "cost_model": {"kind": "linear", "t_mem_s": 0.008, "t_flop_s_per_token": 0.00003},
    "slo": {"p99_ttft_ms": 200},
}
GRID = ("--set", "scheduler.max_num_seqs=1,4", "--grid", "workload.trace.rate_scale=1,2")


AXES = {"scheduler.max_num_seqs": [1, 4], "workload.trace.rate_scale": [1, 2]}


@pytest.fixture
def file(tmp_path):
    rows = [f"{i * 0.04:.2f},{100 + i % 7},{5 + i % 3}" for i in range(80)]
    table = "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows])
    (tmp_path / "trace.csv").write_text(table + "\n")
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


def sweep(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


def left_to_do(file, *settings, out):
    """The last line of a dry run that goes on with a sweep."""
    result = sweep(file, *settings, "--out", out, "--resume", "--dry-run")
    return result.stdout.splitlines()[-1]


def content(folder):
    """Every file that results are in, with its bytes."""
    names = [*(folder / "points").iterdir(), folder / "results.csv", folder / "results.parquet"]
    return {path.name: path.read_bytes() for path in names}


def test_a_grid_with_replicates(file, tmp_path):
    result = sweep(file, *GRID, "--replicates", 2, "--jobs", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Means of 2 replicates" in result.stdout
    assert "★" in result.stdout
    assert {p.stem for p in (tmp_path / "out").glob("*.png")} == {"pareto", "slo_region"}
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert len(frame) == len(pd.read_csv(tmp_path / "out" / "results.csv")) == 8
    assert frame["scheduler.max_num_seqs"].tolist() == [1, 1, 1, 1, 4, 4, 4, 4]
    assert frame["workload.trace.rate_scale"].tolist() == [1, 1, 2, 2, 1, 1, 2, 2]
    assert frame["replicate"].tolist() == [0, 1] * 4
    assert (frame["completed"] == 80).all()
    # One seat serves 20 requests a second, and 25 arrive.
    one, four = (frame[frame["scheduler.max_num_seqs"] == n]["mean_e2el_ms"] for n in (1, 4))
    assert one.mean() > four.mean()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [len(point["runs"]) for point in manifest["points"]] == [2, 2, 2, 2]


def test_processes_give_the_same_bytes_as_one(file, tmp_path):
    for jobs in (1, 2):
        sweep_in_python(Scenario.from_yaml(file), AXES, jobs=jobs, out=tmp_path / f"out{jobs}")
    assert content(tmp_path / "out1") == content(tmp_path / "out2")


def test_a_killed_sweep_loses_only_what_was_running(file, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    seats = list(range(1, 21))
    axes = ("--set", f"scheduler.max_num_seqs={','.join(map(str, seats))}")
    program = [sys.executable, "-m", "simulator.cli.main", "sweep", str(file), *axes]
    process = subprocess.Popen(
        [*program, "--jobs", "1", "--out", str(killed)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while len(list(killed.glob("points/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in killed.glob("points/*.json")}
    assert 3 <= len(kept) < 20
    assert all(json.loads(path.read_text())["summary"] for path in kept)

    refused = sweep(file, *axes, "--jobs", 1, "--out", killed)
    assert isinstance(refused.exception, InputError)
    assert "add --resume" in str(refused.exception)
    assert f"20 runs, {len(kept)} of them done" in left_to_do(file, *axes, out=killed)

    scenario, points = Scenario.from_yaml(file), {"scheduler.max_num_seqs": seats}
    sweep_in_python(scenario, points, out=killed, resume=True)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "simulated again"
    sweep_in_python(scenario, points, out=whole)
    for path in killed.glob("points/*"):
        if path.suffix != ".json":  # it was being written
            path.unlink()
    assert content(killed) == content(whole)


def test_a_changed_trace_has_other_outcomes(file, tmp_path):
    sweep_in_python(Scenario.from_yaml(file), AXES, out=tmp_path / "out")
    assert "4 runs, 4 of them done" in left_to_do(file, *GRID, out=tmp_path / "out")
    trace = tmp_path / "trace.csv"
    trace.write_text(trace.read_text().replace(",5\n", ",9\n"))
    assert "4 runs, 0 of them done" in left_to_do(file, *GRID, out=tmp_path / "out")


def test_a_changed_policy_has_other_outcomes(file, tmp_path):
    policy = tmp_path / "mine.py"
    policy.write_text("from simulator.schedulers.orca import compose\n")
    scenario = Scenario.from_yaml(file, ["scheduler.policy=mine.py:compose"])
    sweep_in_python(scenario, {"seed": [1, 2]}, out=tmp_path / "out")
    setting = ("--set", "scheduler.policy=mine.py:compose", "--set", "seed=1,2")
    assert "2 of them done" in left_to_do(file, *setting, out=tmp_path / "out")
    policy.write_text("from simulator.schedulers.continuous import compose\n")
    assert "0 of them done" in left_to_do(file, *setting, out=tmp_path / "out")


def test_points_that_fail_are_told_and_the_others_go_on(file, tmp_path):
    axes = ("--set", "scheduler.max_num_seqs=4,0", "--set", "model=llama-3.1-8b,llama-3.1-70b")
    result = sweep(file, *axes, "--jobs", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert frame["status"].tolist() == ["ok", "failed", "failed", "failed"]
    assert "llama-3.1-70b" in frame["error"][1]  # does not fit on one GPU
    assert "max_num_seqs is 0" in frame["error"][2]
    assert "#2 (scheduler.max_num_seqs=0, model=llama-3.1-8b) and 1 more" in result.stdout
    # What failed is tried again, in case it was the machine.
    assert "2 runs, 1 of them done" in left_to_do(file, *axes, out=tmp_path / "out")


def test_nothing_that_succeeds_is_an_error(file):
    result = sweep(file, "--set", "model=llama-3.1-70b,llama-3.1-405b", "--jobs", 1)
    assert result.exit_code == 1
    assert "no run succeeded" in result.stderr


def test_many_points_show_the_efficient_ones(file):
    # The faster the steps, the better in both respects: one point beats all others.
    values = ",".join(f"{8 + i / 10}e-3" for i in range(70))
    result = sweep(file, "--set", f"cost_model.t_mem_s={values}", "--jobs", 1)
    assert "- 69 points more, not efficient, in the tables of --out DIR" in result.stdout
    assert result.stdout.count("★") == 2, "the point and the note"


def test_in_python(file, tmp_path):
    scenario = Scenario.from_yaml(file)
    found = sweep_in_python(scenario, {"scheduler.max_num_seqs": [1, 4]}, replicates=2)
    assert found.table["point"].tolist() == [0, 0, 1, 1]
    assert "linear" in found.provenances[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a sweep needs values to go through"),
        (("--set", "scheduler.max_num_seqs=1..9"), "or give --sample N"),
        (("--set", "scheduler.max_num_sqs=1,9"), "did you mean scheduler.max_num_seqs?"),
        (("--set", "seed=1,2", "--resume"), "--resume needs --out"),
        (("--set", "seed=1,2", "--executor", "slurm"), "choose local or ray"),
        (("--set", "seed=1,2", "--address", "auto"), "add --executor ray"),
        (("--set", "seed=1..9", "--sample", "2", "--sampling", "x"), "choose latin or random"),
        (("--set", "slo.p99_ttft_ms=1,2", "--seed", "-1"), "--seed: seed is -1"),
    ],
)
def test_bad_sweeps_are_refused(file, arguments, sentence):
    result = sweep(file, *arguments)
    assert isinstance(result.exception, InputError), result.output
    assert sentence in str(result.exception)
