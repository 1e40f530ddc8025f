"""Files: YAML is read safely, and what is wrong is told with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.scenario import Scenario, builtin_scenarios

GOOD = """\
workload:
  arrivals: {process: poisson, rate: 8}
  lengths: {distribution: azure_conv_2023}
model: llama-3.1-8b
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "case.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_gives_its_name_and_folder(tmp_path: Path) -> None:
    scenario = Scenario.from_yaml(_write(tmp_path, GOOD))
    assert scenario.name == "case"
    assert scenario.base_dir == tmp_path


def test_exponents_without_a_point_are_numbers(tmp_path: Path) -> None:
    text = GOOD + "cost_model: {kind: linear, t_mem_s: 5e-3, t_flop_s_per_token: 2E-5}\n"
    cost = Scenario.from_yaml(_write(tmp_path, text)).cost_model
    assert cost.t_mem_s == 0.005
    assert cost.t_flop_s_per_token == 0.00002


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (GOOD + "cluster: {gpu: [}\n", ["case.yaml line 5"]),
        (GOOD + "model: qwen3-32b\n", ["case.yaml line 5", "model stands twice", "line 4"]),
        (GOOD.replace("rate: 8", "rate: 8, rate: 9"), ["line 2", "rate stands twice"]),
        (GOOD.replace("rate: 8", "rate: -8"), ["case.yaml line 2: workload.arrivals.rate is -8"]),
        (GOOD + "cluster:\n  gpu: h100_sxm\n  replicas: no\n", ["line 7: cluster.replicas is"]),
        (GOOD + "clutser: {}\n", ["line 5: clutser is not a key", "did you mean cluster?"]),
        (GOOD + "cluster: {pools: {a: 1}}\n", ["line 5: cluster.pools.a is not a key"]),
        (GOOD + "scheduler: {order: sjf}\n", ["line 5: scheduler.order is sjf"]),
        (GOOD + "cluster: {engine_version: 0.20}\n", ["line 5", "in quotes", "0.20 as 0.2"]),
        (GOOD + "3: {}\n", ["the key 3 must be text"]),
        (GOOD.replace("model: llama-3.1-8b", ""), ["case.yaml", "model", "is missing"]),
        ("", ["this file is empty"]),
        ("- a\n- b\n", ["a scenario is a mapping of keys, but this file is a list"]),
        ("a: &a [*a]\n", ["nested too deep"]),
        ("a: !!python/object/apply:os.system [ls]\n", ["line 1", "python/object"]),
        ("a: {b: \x07}\n", ["case.yaml"]),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, fragments: list[str]) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(InputError) as refused:
        Scenario.from_yaml(path)
    for fragment in fragments:
        assert fragment in str(refused.value)
    assert "\n" not in str(refused.value)


def test_aliases_cannot_blow_up(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match="too large"):
        Scenario.from_yaml(_write(tmp_path, "\n".join(levels) + "\n"))


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(InputError, match="byte 9 is not UTF-8"):
        Scenario.from_yaml(path)


def test_unknown_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean chat-8b-h100"):
        Scenario.from_yaml("chat-8b-h10")
    with pytest.raises(InputError, match="neither a file nor a built-in name"):
        Scenario.from_yaml("nothing.yaml")
    with pytest.raises(InputError, match="is a folder"):
        Scenario.from_yaml(tmp_path)


@pytest.mark.parametrize("name", list(builtin_scenarios()))
def test_yaml_round_trip(name: str, tmp_path: Path) -> None:
    scenario = Scenario.from_yaml(name)
    again = Scenario.from_yaml(_write(tmp_path, scenario.to_yaml()))
    assert again.to_mapping() == scenario.to_mapping()
    assert again.hash() == scenario.hash()
