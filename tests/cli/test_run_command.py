"""`servecast run`, on a scenario whose figures are known by hand.

One request a second, 100 prompt and 3 output tokens each, alone on the server: the prefill
takes 10 ms + 100 · 0.1 ms = 20 ms and each decode 10.1 ms.
"""

from __future__ import annotations

import json
import re
import signal

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from simulator import simulation
from simulator.cli.main import app
from simulator.cluster.interruption import run_until_stopped
from simulator.errors import InputError

SCENARIO = {
    "name": "by hand",
    "workload": {
        "arrivals": {"process": "constant", "rate": 1.0},
        "lengths": {"distribution": "fixed", "prompt_tokens": 100, "output_tokens": 3},
        "num_requests": 20,
    },
    "model": "llama-3.1-8b",
    # asynchronous scheduling would compose one more step before it sees that an output has ended
    "scheduler": {"async_scheduling": False},
    "kv_cache": {"num_gpu_blocks": 1000, "max_model_len": 1000},
    "cost_model": {"kind": "linear", "t_mem_s": 0.010, "t_flop_s_per_token": 0.0001},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_prints_the_block(file):
    result = run(file)
    assert result.exit_code == 0
    assert result.stdout.startswith("============ Serving Benchmark Result ============\n")
    assert "Successful requests:                     20\n" in result.stdout
    assert "Mean TTFT (ms):                          20.00\n" in result.stdout
    assert "P99 TPOT (ms):                           10.10\n" in result.stdout
    assert "Median ITL (ms):                         10.10\n" in result.stdout
    assert "Mean E2EL (ms):                          40.20\n" in result.stdout
    assert "State:                                   STABLE\n" in result.stdout


def test_says_why_there_is_nothing_to_report(file):
    # Requests at 0 ... 19 s; none of a Poisson process at one a week within a second.
    assert "all arrive before warmup_s 30." in run(file, "--set", "warmup_s=30").stderr
    seldom = ["workload.arrivals={process: poisson, rate: 1.6e-6}", "workload.horizon_s=1"]
    ended = run(file, *(word for key in seldom for word in ("--set", key)))
    assert ended.exit_code == 1
    assert "none arrived until the clock stopped at 1 s." in ended.stderr


def test_json_is_all_that_stdout_has(file):
    result = run(file, "--json")
    summary = json.loads(result.stdout)
    assert summary["completed"] == 20
    assert summary["mean_ttft_ms"] == pytest.approx(20.0)
    assert summary["num_steps"] == 60
    assert summary["request_goodput"] is None
    assert summary["utilisation"] == pytest.approx(20 * 0.0402 / (19 + 0.0402))


def test_other_benchmarks_formats(file):
    # Per request: first token after 20 ms, two more at 10.1 ms each, so 40.2 ms for three.
    guidellm = run(file, "--format", "guidellm").stdout
    row = next(line for line in guidellm.splitlines() if "|13.4" in line)
    assert re.split(r" *\|", row)[1:-1] == [
        "constant", *["0.0"] * 2, *["20.0"] * 2, *["10.1"] * 2, *["13.4"] * 2
    ]  # fmt: skip
    aiperf = run(file, "--format", "aiperf").stdout
    assert re.search(r"Inter Token Latency \(ms\) │ +10\.10 │ +10\.10 │", aiperf)
    block = run(file, "--format", "vllm").stdout
    assert block.startswith("============ Serving Benchmark Result")
    assert "State:" not in block
    assert json.loads(run(file, "--format", "json").stdout)["completed"] == 20


def test_a_trace_for_perfetto(file, tmp_path):
    path = tmp_path / "trace.json"
    assert run(file, "--perfetto", path, "--window", "0.5..2.5s").exit_code == 0
    events = json.loads(path.read_text())["traceEvents"]
    steps = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    # The requests of 1 and 2 s, three steps each.
    assert [e["ts"] for e in steps[::3]] == [1e6, 2e6]
    assert [e["dur"] for e in steps[:3]] == [20_000, 10_100, 10_100]
    without = run(file, "--window", "0..1s")
    assert "give one of them too" in str(without.exception)
    nowhere = run(file, "--perfetto", tmp_path / "no" / "trace.json")
    assert "does not exist" in str(nowhere.exception)


def test_plots_are_written_as_png_and_svg(file, tmp_path):
    folder = tmp_path / "plots"
    assert run(file, "--plots", folder, "--window", "2..4s").exit_code == 0
    names = ("timeline", "load", "itl", "latency", "attribution")
    assert {p.name for p in folder.iterdir()} == {f"{n}.{f}" for n in names for f in ("png", "svg")}
    assert (folder / "load.png").read_bytes().startswith(b"\x89PNG")
    assert ">simulated time (s)<" in (folder / "timeline.svg").read_text()
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    run(file, "--plots", folder, "--window", "2..4s")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == first


def test_an_interrupted_run_reports_what_was_done(file, tmp_path, monkeypatch):
    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
        return run_until_stopped(*arguments)

    monkeypatch.setattr(simulation, "run_until_stopped", interrupted)
    result = run(file, "--out", tmp_path / "part")
    assert result.exit_code == 130
    assert "Ctrl-C again to leave at once" in result.stderr
    assert "interrupted at 0.296875 s of simulated time" in " ".join(result.stdout.split())
    monkeypatch.undo()
    part = json.loads((tmp_path / "part" / "summary.json").read_text())
    # 20 arrivals at 0 ... 19 s; the first of 64 pieces ends at 19/64 s.
    assert (part["completed"], part["unfinished"]) == (1, 0)
    # It is the run with this horizon, which scenario.yaml holds.
    assert run(tmp_path / "part" / "scenario.yaml", "--out", tmp_path / "again").exit_code == 0
    for name in ("summary.json", "requests.parquet", "steps.parquet"):
        again = (tmp_path / "again" / name).read_bytes()
        assert (tmp_path / "part" / name).read_bytes() == again, name


def test_percentiles_are_chosen(file):
    result = run(file, "--percentiles", "50,95")
    assert "P95 TTFT (ms):" in result.stdout
    assert "P99 TTFT" not in result.stdout


def test_check_exits_3_when_an_slo_is_missed(file):
    met = run(file, "--set", "slo.p99_ttft_ms=20.1", "--check")
    assert met.exit_code == 0
    assert "✓ p99_ttft_ms <= 20.1" in met.stdout
    missed = run(file, "--set", "slo={p99_ttft_ms: 19, p99_tpot_ms: 11}", "--check")
    assert missed.exit_code == 3
    assert "missed: p99_ttft_ms\n" in missed.stderr
    assert run(file, "--set", "slo.p99_ttft_ms=19").exit_code == 0


def test_check_without_a_limit_is_refused(file):
    result = run(file, "--check")
    assert isinstance(result.exception, InputError)
    assert "--check needs a limit" in str(result.exception)


def test_nothing_completed_is_said_and_no_success(file):
    result = run(file, "--set", "kv_cache.max_model_len=50")
    assert result.exit_code == 1
    assert "no request completed: 20 of 20 were rejected (20 prompt too long)" in result.stderr


def test_out_has_every_file(file, tmp_path):
    folder = tmp_path / "out"
    assert run(file, "--out", folder).exit_code == 0
    assert {path.name for path in folder.iterdir()} == {
        "scenario.yaml", "summary.json", "requests.parquet", "steps.parquet", "report.html",
        "COLUMNS.md", "run_info.json",
    }  # fmt: skip
    assert pq.read_metadata(folder / "requests.parquet").num_rows == 20
    assert pq.read_metadata(folder / "steps.parquet").num_rows == 60
    assert json.loads((folder / "run_info.json").read_text())["wall_s"] > 0
    assert run(file, "--out", folder, "--no-steps").exit_code == 0
    assert not (folder / "steps.parquet").exists()


def test_same_scenario_gives_the_same_bytes(file, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    run(file, "--out", first)
    run(file, "--out", second)
    for path in first.iterdir():
        if path.name != "run_info.json":
            assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_written_scenario_gives_the_same_results(file, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    run(file, "--out", first)
    assert run(first / "scenario.yaml", "--out", second).exit_code == 0
    for name in ("scenario.yaml", "summary.json", "requests.parquet", "steps.parquet"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_written_scenario_finds_its_trace(tmp_path):
    (tmp_path / "here").mkdir()
    trace = tmp_path / "here" / "trace.csv"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:00:00.0000000,100,3\n"
        "2023-11-16 18:00:01.0000000,100,3\n"
    )
    scenario = tmp_path / "here" / "scenario.yaml"
    scenario.write_text(yaml.safe_dump(SCENARIO | {"workload": {"trace": {"path": "trace.csv"}}}))
    folder = tmp_path / "there" / "out"
    assert run(scenario, "--out", folder).exit_code == 0
    again = run(folder / "scenario.yaml", "--json")
    assert json.loads(again.stdout) == json.loads((folder / "summary.json").read_text())


def test_seed_takes_the_place_of_the_files(file):
    poisson = ("--set", "workload.arrivals={process: poisson, rate: 1.0}", "--json")
    base, other = run(file, *poisson), run(file, *poisson, "--seed", 7)
    assert json.loads(other.stdout)["seed"] == 7
    assert json.loads(base.stdout)["duration"] != json.loads(other.stdout)["duration"]


def test_out_that_is_a_file_is_refused_before_the_run(file, tmp_path):
    (tmp_path / "taken").write_text("")
    result = run(file, "--out", tmp_path / "taken")
    assert isinstance(result.exception, InputError)
    assert "taken: cannot be made" in str(result.exception)
    assert result.stdout == ""


def test_page_escapes_names(file, tmp_path):
    name = "<script>alert(1)</script> & co"
    assert run(file, "--set", f"name={name}", "--out", tmp_path / "o").exit_code == 0
    page = (tmp_path / "o" / "report.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in page
    assert set(re.findall(r"https?://[^/\"]*", page)) == {"http://www.w3.org"}  # SVG namespaces
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))


def test_a_limit_met_exactly_is_met(file):
    # TTFT is 10 ms + 100 · 0.1 ms = 20 ms, but for rounding errors of the clock.
    assert run(file, "--set", "slo.p99_ttft_ms=20", "--check").exit_code == 0
    assert run(file, "--set", "slo.p99_ttft_ms=19.999", "--check").exit_code == 3


def test_out_does_not_replace_the_scenario_it_ran(file):
    result = run(file, "--out", file.parent)
    assert isinstance(result.exception, InputError)
    assert "would replace" in str(result.exception)
    assert yaml.safe_load(file.read_text()) == SCENARIO


def test_arrivals_after_the_horizon_are_no_part_of_the_run(file):
    # Ten arrivals at 0 ... 9 s; the one at 5 s takes 40.2 ms.
    changes = ["workload.num_requests=10", "workload.horizon_s=5.03"]
    summary = json.loads(run(file, "--json", *(x for c in changes for x in ("--set", c))).stdout)
    assert (summary["completed"], summary["unfinished"]) == (5, 1)


def test_outputs_cut_by_max_model_len_are_reported(file):
    text = run(file, "--set", "kv_cache.max_model_len=102").stdout
    # 100 + 3 tokens do not fit: each of the 20 ends a token short.
    said = " ".join(text.split())
    assert "20 outputs end at kv_cache.max_model_len 102, 20 tokens short; 103 would" in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("scheduler.static.batch_size=4", "scheduler.static: no effect with chunked_prefill"),
        ("workload.predictor=oracle", "workload.predictor: no effect with order fcfs"),
        (
            "scheduler={policy: orca, scheduler_reserve_full_isl: true}",
            "scheduler.scheduler_reserve_full_isl: no effect with orca",
        ),
        (
            "scheduler={policy: static, watermark: 0.1}",
            "scheduler.watermark: no effect with static",
        ),
        ("scheduler.order=priority", "all classes have the same priority"),
        ("cluster.engine_version=9.9", "9.9 has the defaults and host times of 0.33"),
    ],
)
def test_settings_without_effect_are_named(file, change, sentence):
    assert sentence in " ".join(run(file, "--set", change).stdout.split())


@pytest.mark.parametrize(
    "change",
    ["cluster.replicas=1000000", "kv_cache.num_gpu_blocks=10000000000", "cost_model.t_mem_s=1e308",
     "workload.lengths.prompt_tokens=99999999999999999999"],
)  # fmt: skip
def test_numbers_beyond_all_plans_are_refused(file, change):
    result = run(file, "--set", change)
    assert isinstance(result.exception, InputError)
    assert "it must be at most" in str(result.exception)
