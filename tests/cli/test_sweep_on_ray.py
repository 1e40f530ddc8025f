"""`servecast sweep --executor ray`, on a cluster of this machine."""

from __future__ import annotations

import pickle
import sys

import pytest
import yaml
from typer.testing import CliRunner

from simulator.cli.main import app
from simulator.errors import InputError
from simulator.planning.executors import Serial
from simulator.planning.executors.on_ray import OnRay
from simulator.planning.sweep import Store, grid, plan, run_plan
from simulator.planning.sweep.work import Simulations
from simulator.scenario import Scenario

POLICY = "from simulator.schedulers.orca import compose\n"


@pytest.fixture
def scenario(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    (tmp_path / "trace.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i},50,9\n" for i in range(70))
    )
    (folder / "mine.py").write_text(POLICY)
    path = folder / "scenario.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "workload": {"trace": {"path": "../trace.csv"}},
                "model": "llama-3.1-8b",
                "scheduler": {"policy": "mine.py:compose"},
                "cost_model": {"kind": "linear", "t_mem_s": 0.008, "t_flop_s_per_token": 3e-5},
            }
        )
    )
    return Scenario.from_yaml(path)


@pytest.fixture
def planned(scenario):
    points = grid({"workload.trace.rate_scale": [1, 2], "scheduler.max_num_seqs": [0, 8]})
    return plan(scenario, points, 2)


def test_ray_gives_the_same_bytes(planned, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'servecast[ray]'")
    run_plan(planned, Serial(), Store(tmp_path / "serial"))
    run_plan(planned, OnRay(2), Store(tmp_path / "ray"))
    expected = content(tmp_path / "serial")
    assert len(expected) == 2 * 2 + 3  # two valid points, twice; manifest and tables
    assert content(tmp_path / "ray") == expected


def test_what_travels_needs_no_file_of_the_sender(planned, tmp_path):
    work = Simulations.of(planned)
    expected = work(planned.runs[0])
    sent = pickle.dumps(work.portable())
    for name in ("trace.csv", "here/mine.py"):
        (tmp_path / name).unlink()
    assert pickle.loads(sent)(planned.runs[0]) == expected


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.*")}


def test_ray_that_is_not_installed(scenario, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(
        app, ["sweep", "seed-linear", "--set", "seed=1,2", "--executor", "ray"]
    )
    assert isinstance(result.exception, InputError)
    assert "pip install 'servecast[ray]'" in str(result.exception)
