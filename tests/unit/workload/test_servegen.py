"""ServeGen's clients: files written by hand, and what must hold of draws from them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from simulator import Scenario
from simulator.cli.trace import trace as trace_command
from simulator.errors import InputError
from simulator.scenario import WorkloadSpec
from simulator.workload import build_requests
from simulator.workload.streams import Streams
from simulator.workload.traces.servegen import draw_servegen

LENGTHS = {
    "0": {"input_tokens": "{}", "output_tokens": "{}"},
    "600": {"input_tokens": "{100: 0.25, 300: 0.75}", "output_tokens": "{0: 0.5, 7: 0.5}"},
    "1200": {"input_tokens": "{50: 1.0}", "output_tokens": "{9: 1}"},
}


@pytest.fixture
def folder(tmp_path):
    def write(**clients):
        for name, (trace, dataset) in clients.items():
            number = name.removeprefix("c")
            (tmp_path / f"chunk-{number}-trace.csv").write_text(trace)
            (tmp_path / f"chunk-{number}-dataset.json").write_text(json.dumps(dataset))
        return tmp_path

    return write


def made(path, replicate=0, **trace):
    spec = WorkloadSpec.model_validate({"trace": {"path": path.name, **trace}})
    return build_requests(
        spec, base_dir=path.parent, max_model_len=10**6, seed=3, replicate=replicate
    )


def test_rates_and_lengths_by_window(folder):
    path = folder(
        c4=("0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,8.0,1.0,Weibull,1.0,0.1\n", LENGTHS)
    )
    requests = made(path)
    early = requests.arrival_s < 600
    assert ((requests.arrival_s >= 1200) | early).all()
    assert requests.arrival_s[-1] < 1800
    # Poisson in both windows, 1200 and 4800 expected.
    assert abs(np.count_nonzero(early) - 1200) < 4 * 1200**0.5
    assert abs(np.count_nonzero(~early) - 4800) < 4 * 4800**0.5
    # Before 600 s no lengths are told: those from 600 s on are taken.
    assert set(requests.prompt_tokens[early].tolist()) == {100, 300}
    assert np.mean(requests.prompt_tokens[early] == 300) == pytest.approx(0.75, abs=0.05)
    assert set(requests.output_tokens[early].tolist()) == {1, 7}
    assert set(requests.prompt_tokens[~early].tolist()) == {50}
    zeros = int(np.count_nonzero(requests.output_tokens == 1))
    assert any(f"{zeros} requests have a length of 0; taken as 1" in n for n in requests.notes)


@pytest.mark.parametrize("gaps", ["Gamma,0.1", "Weibull,0.5"])
def test_counts_of_rare_bursty_clients_are_right_on_average(folder, gaps):
    # A process without memory of its start: 0.3 requests of each of 3,000 clients are expected.
    # Gaps with a cv of 2.2 to 3.2 would give far more, were the first one a whole gap from 0.
    one = (f"0,0.0005,3,{gaps},1\n", LENGTHS)
    path = folder(**{f"c{k}": one for k in range(1500)})
    counts = [len(draw_servegen(path, Streams(seed))) for seed in range(2)]
    assert np.mean(counts) == pytest.approx(450, rel=0.2)


def test_gaps_have_the_shape_of_their_window(folder):
    path = folder(c1=("0,20.0,0,Gamma,4.0,0\n600,20.0,0,Gamma,0.25,0\n", LENGTHS))
    arrival_s = made(path).arrival_s
    for first, cv in ((0, 0.5), (600, 2.0)):  # 1 / sqrt(shape)
        gaps = np.diff(arrival_s[(arrival_s > first) & (arrival_s < first + 600)])
        assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06)


def test_windows_limits_replicates_and_seeds(folder):
    row = "{},5.0,1.0,Exponential,1,1\n"
    many = "".join(row.format(600 * k) for k in range(2000))
    path = folder(c1=(many, LENGTHS), c2=(many, LENGTHS))
    few = made(path, skip_s=6000, duration_s=100)
    assert 0 <= few.arrival_s[0] < few.arrival_s[-1] < 100
    assert len(made(path, limit=50)) == 50
    assert made(path, limit=50).arrival_s.tolist() == made(path, limit=50).arrival_s.tolist()
    again = made(path, replicate=1, limit=50)
    assert again.arrival_s.tolist() != made(path, limit=50).arrival_s.tolist()
    # The same client keeps its luck when another one is added.
    alone = draw_servegen(path, Streams(0), duration_s=50).arrival_s
    folder(c3=("0,1e-9,1,Exponential,1,1\n", LENGTHS))
    assert draw_servegen(path, Streams(0), duration_s=50).arrival_s.tolist() == alone.tolist()
    with pytest.raises(InputError, match="send about 100,010,000 requests in this window"):
        made(folder(c9=("0,100000,1,Exponential,1,1\n600,1e5,1,Exponential,1,1\n", LENGTHS)),
             duration_s=1000)  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "dataset", "said"),
    [
        ("0,1,1\n", LENGTHS, "chunk-1-trace.csv, line 1: has 3 cells; a window has 6"),
        ("0,x,1,Gamma,1,1\n", LENGTHS, "line 1: rate 'x' is not a number from 0"),
        ("0,1,1,Pareto,1,1\n", LENGTHS, "gaps distributed as 'Pareto'; known are Gamma"),
        ("0,1,1,Gamma,0,1\n", LENGTHS, "shape '0' is not a number from 0.02"),
        ("5,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", LENGTHS, "the starts of its windows must go up"),
        ("0,1,1,Gamma,1,1\n", {}, "needs lengths for one time or more"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1}"}}, "needs input_tokens and output_"),
        ("0,1,1,Gamma,1,1\n", {"0": {"input_tokens": "__import__('os')",
         "output_tokens": "{1: 1}"}}, "0, input_tokens: is not written as {tokens: share"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(folder, trace, dataset, said):
    path = folder(c1=(trace, dataset))
    with pytest.raises(InputError) as caught:
        made(path)
    assert said in str(caught.value)


def test_folders_have_a_hash_and_can_be_inspected(folder):
    path = folder(c1=("0,5.0,1.0,Exponential,1,1\n", LENGTHS))
    base = {"workload": {"trace": {"path": str(path)}}, "model": "llama-3.1-8b"}
    before = Scenario.from_mapping(base).hash()
    folder(c1=("0,6.0,1.0,Exponential,1,1\n", LENGTHS))
    assert Scenario.from_mapping(base).hash() != before
    result = CliRunner().invoke(trace_command, ["inspect", str(path), "--json"])
    assert json.loads(result.output)["format"] == "servegen"
    with pytest.raises(InputError, match="remove it"):
        made(path, class_column="who")
