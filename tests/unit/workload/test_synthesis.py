"""Statistical twins: the right process is found, and the twin is like its trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from simulator.cli.trace import trace as command
from simulator.errors import InputError
from simulator.scenario import Scenario, WorkloadSpec
from simulator.workload import build_requests
from simulator.workload.content import output_tag, own_tag
from simulator.workload.quantiles import QuantileTable
from simulator.workload.requests import Requests
from simulator.workload.synthesis.arrival_fit import fit_arrivals
from simulator.workload.synthesis.fidelity import cv, ks_distance, prefix_reuse
from simulator.workload.synthesis.twin import synthesize
from simulator.workload.traces.read import read_trace
from simulator.workload.traces.statistics import dispersion

N = 6000


def arrivals_of(process, seed=11, n=N):
    workload = {
        "arrivals": process, "num_requests": n,
        "lengths": {"distribution": "fixed", "prompt_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    spec = WorkloadSpec.model_validate(workload)
    start_s = build_requests(spec, base_dir=".", max_model_len=9, seed=seed).arrival_s
    return start_s - start_s[0]


@pytest.mark.parametrize(
    "process",
    [
        {"process": "poisson", "rate": 5.0},
        {"process": "gamma", "rate": 5.0, "cv": 3.0},
        {"process": "weibull", "rate": 5.0, "cv": 3.0},
        {"process": "diurnal", "curve": [1.0, 9.0, 3.0, 12.0], "period_s": 1000.0},
    ],
    ids=lambda p: p["process"],
)
def test_the_process_that_made_the_arrivals_is_found(process):
    found, why = fit_arrivals(arrivals_of(process))
    assert found["process"] == process["process"], why
    # Rates and variations are known to a few standard errors.
    if "rate" in process:
        cv = process.get("cv", 1.0)
        assert found["rate"] == pytest.approx(process["rate"], rel=4 * cv / np.sqrt(N))
    if "cv" in process:
        assert found["cv"] == pytest.approx(process["cv"], rel=0.1)
    if "curve" in found:
        assert found["cv"] == pytest.approx(1.0, abs=0.1)  # steps cross the curve's jumps


def test_burst_episodes_are_found():
    made = {"rate": 10.0, "burst_factor": 5.0, "burst_share": 0.1, "burst_s": 8.0}
    found, why = fit_arrivals(arrivals_of({"process": "mmpp", **made}, n=20_000))
    assert found["process"] == "mmpp", why
    assert found["burst_share"] == made["burst_share"]
    # Some 25 bursts: their number and lengths are known to a fifth of their means.
    for key, value in made.items():
        assert found[key] == pytest.approx(value, rel=3 / 5)


def test_long_silences_between_bursts_are_kept(shared):
    # The recording's gaps have a CV of 13.15, all of it from a few silences of minutes.
    path = shared / "traces" / "azure2023" / "AzureLLMInferenceTrace_code.csv"
    start_s = read_trace(path).arrival_s
    found, why = fit_arrivals(start_s - start_s[0])
    assert found["process"] == "mmpp", why
    cvs = [cv(np.diff(arrivals_of(found, seed, len(start_s)))) for seed in range(5)]
    assert np.median(cvs) == pytest.approx(13.15, rel=0.25)


def test_the_curve_of_burst_episodes_against_its_theory():
    # 4,000 s of bursts of 5 s, 1 in 5 of the time: A and tau as the formula has them.
    rate, factor, share, burst_s = 20.0, 3.0, 0.2, 5.0
    spec = {"rate": rate, "burst_factor": factor, "burst_share": share, "burst_s": burst_s}
    start_s = arrivals_of({"process": "mmpp", **spec}, n=400_000)
    calm = rate * (1 - factor * share) / (1 - share)
    tau = burst_s * (1 - share)
    excess = 2 * share * (1 - share) * (factor * rate - calm) ** 2 * tau / rate
    for width, found in dispersion(start_s, (1.0, 10.0, 100.0)).items():
        t = float(width)
        theory = 1 + excess * (1 - tau / t * (1 - np.exp(-t / tau)))
        windows = start_s[-1] / t
        assert found == pytest.approx(theory, rel=4 * np.sqrt(2 / windows) + 0.05)


def test_arrivals_at_once_are_a_burst():
    assert fit_arrivals(np.zeros(60))[0] == {"process": "burst"}


def test_distance_is_that_of_kolmogorov_and_smirnov():
    random = np.random.default_rng(2)
    a, b = random.integers(0, 50, 300), random.integers(5, 60, 200)
    assert ks_distance(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic, abs=1e-12)


def test_prefix_reuse_by_hand():
    # r0: [A 10][own 5]; r1 the same text to A, 8 of it; r2 follows r0 and repeats it all.
    pieces = [[(0, 10)], [(0, 8)], [(0, 10), (own_tag(0), 5), (output_tag(0), 3)]]
    flat = [piece for row in pieces for piece in row]
    n = np.array
    requests = Requests(
        arrival_s=np.zeros(3), prompt_tokens=n([15, 20, 25]), output_tokens=n([3, 1, 1]),
        max_tokens=n([9, 9, 9]), predicted_tokens=np.full(3, np.nan), priority=n([0, 0, 0]),
        class_id=n([0, 0, 0]), segments=n(flat), segment_offsets=np.cumsum([0, 1, 1, 3]),
    )  # fmt: skip
    assert prefix_reuse(requests) == (8 + 18) / 60


@pytest.fixture
def recording(tmp_path):
    random = np.random.default_rng(7)
    arrival = np.cumsum(random.exponential(0.2, N))
    tier = np.where(random.random(N) < 0.25, "gold", "free")
    prompt = np.where(tier == "gold", random.integers(100, 200, N), random.integers(500, 900, N))
    output = random.integers(1, 50, N)
    rows = zip(arrival.tolist(), prompt.tolist(), output.tolist(), tier.tolist(), strict=True)
    path = tmp_path / "trace.csv"
    lines = [f"{a!r},{p},{o},{t}" for a, p, o, t in rows]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,tier", *lines]))
    return path


def test_a_twin_is_like_its_trace_and_is_a_scenario(recording, tmp_path):
    out = tmp_path / "twin.yaml"
    twin = synthesize({"path": str(recording)}, out, "llama-3.1-8b")
    rows = {row.measure: row for row in twin.likeness}
    # Two samples of one law differ by less than this in 999 of 1000 cases.
    critical = 1.95 * np.sqrt(2 / N)
    assert rows["CV of the gaps"].distance < critical
    assert rows["mean of the prompts"].distance < critical
    assert rows["mean of the outputs"].distance < critical
    assert rows["rate (starts/s)"].twin == pytest.approx(5.0, rel=0.06)
    scenario = Scenario.from_yaml(out)
    assert scenario.workload == twin.scenario.workload
    assert twin.files == [out, tmp_path / "twin.lengths.json"]
    assert scenario.hash()


def test_a_twin_keeps_the_classes(recording, tmp_path):
    out = tmp_path / "twin.yaml"
    section = {"path": str(recording), "class_column": "tier"}
    twin = synthesize(section, out, "llama-3.1-8b")
    classes = twin.scenario.workload.classes
    assert [c.name for c in classes] == ["free", "gold"]
    assert sum(c.share for c in classes) == pytest.approx(1.0)
    assert classes[1].share == pytest.approx(0.25, abs=0.03)
    made = build_requests(twin.scenario.workload, base_dir=tmp_path, max_model_len=9999, seed=0)
    assert made.prompt_tokens[made.class_id == 1].max() < 200
    assert made.prompt_tokens[made.class_id == 0].min() >= 500


def test_a_twin_of_binned_arrivals_and_shared_blocks(tmp_path):
    rows = [
        {"timestamp": 3000 * (i // 9), "input_length": 1024, "output_length": 1,
         "hash_ids": [0, i]}
        for i in range(1, 900)
    ]  # fmt: skip
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    twin = synthesize({"path": str(path)}, tmp_path / "twin.yaml", "llama-3.1-8b")
    assert "bins of 3 s" in twin.notes[0]
    assert twin.scenario.workload.shared_prefix_tokens == pytest.approx(512, abs=1)
    rows = {row.measure: row for row in twin.likeness}
    assert rows["prefix reuse"].trace == pytest.approx(898 * 512 / (899 * 1024))
    assert rows["prefix reuse"].twin == pytest.approx(rows["prefix reuse"].trace, abs=0.002)


def test_a_twin_of_sessions(tmp_path):
    spec = WorkloadSpec.model_validate(
        {
            "arrivals": {"process": "poisson", "rate": 1.0},
            "lengths": {"distribution": "fixed", "prompt_tokens": 50, "output_tokens": 20},
            "sessions": {"mean_turns": 3, "think_time_s": 8.0},
            "num_requests": 3000,
        }
    )
    made = build_requests(spec, base_dir=".", max_model_len=10**6, seed=3)
    previous = made.previous_request()
    session = np.cumsum(previous < 0)
    head = "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms"
    lines = []
    turn = 0
    arrival_ms, think_ms = (made.arrival_s * 1000).tolist(), (made.think_s * 1000).tolist()
    for row in range(len(made)):
        turn = 0 if previous[row] < 0 else turn + 1
        prefix = 0 if turn == 0 else int(made.prompt_tokens[row]) - 50
        lines.append(f"{session[row]},{arrival_ms[row]!r},{turn},{prefix},50,20,{think_ms[row]!r}")
    path = tmp_path / "s.csv"
    path.write_text("\n".join([head, *lines]))
    twin = synthesize({"path": str(path)}, tmp_path / "twin.yaml", "llama-3.1-8b")
    rows = {row.measure: row for row in twin.likeness}
    assert rows["turns per session"].trace == pytest.approx(3, rel=0.1)
    assert rows["turns per session"].twin == pytest.approx(3, rel=0.15)
    assert rows["mean think time (s)"].distance < 1.95 * np.sqrt(2 / 1900)
    assert rows["prefix reuse"].twin == pytest.approx(rows["prefix reuse"].trace, rel=0.1)


def test_too_little_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,5\n1,5,5\n")
    with pytest.raises(InputError, match="2 requests are too few for a statistical twin"):
        synthesize({"path": str(path)}, tmp_path / "o.yaml", "llama-3.1-8b")


@pytest.mark.parametrize("service", ["conv", "code"])
def test_twins_of_the_azure_traces(shared, tmp_path, service):
    path = shared / "traces/azure2023" / f"AzureLLMInferenceTrace_{service}.csv"
    command_line = ["synthesize", str(path), "--out", str(tmp_path / "twin.yaml"), "--json"]
    result = CliRunner().invoke(command, command_line)
    assert result.exit_code == 0
    rows = {row["measure"]: row for row in json.loads(result.output)}
    assert rows["mean of the prompts"]["distance"] < 0.03
    assert rows["mean of the outputs"]["distance"] < 0.03
    for width in ("1", "10", "60"):
        row = rows[f"dispersion at {width} s"]
        assert 0.5 < row["twin"] / row["trace"] < 2


def test_the_command_says_what_it_wrote(recording, tmp_path):
    out = tmp_path / "twin.yaml"
    result = CliRunner().invoke(command, ["synthesize", str(recording), "--out", str(out)])
    assert result.exit_code == 0
    assert "KS distance" in result.output
    assert "written: " in result.output
    assert out.read_text().startswith("# statistical twin of 6,000 recorded requests")


def test_bad_tables_of_quantiles(tmp_path):
    good = json.loads(QuantileTable.of("x", np.arange(1, 90), np.arange(1, 90)).to_json())
    path = tmp_path / "q.json"
    for key, value, said in (
        ("prompt_tokens", [1, 2], "differ in number"),
        ("output_tokens", 3, "differ in number"),
        ("prompt_probability", [0.5] * len(good["prompt_probability"]), "go up from 0 to 1"),
        ("prompt_tokens", [0] * len(good["prompt_tokens"]), "token counts from 1 on"),
        ("about", None, ""),
    ):
        bad = {**good, key: value}
        if key == "about":
            del bad["about"]
            said = "no table of quantiles can be read"
        path.write_text(json.dumps(bad))
        with pytest.raises(InputError, match=said):
            QuantileTable.read(path)
    path.write_text("{")
    with pytest.raises(InputError, match="no table of quantiles can be read"):
        QuantileTable.read(path)
