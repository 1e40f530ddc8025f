"""``--set key=value``: checked like the file, and read as YAML."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.scenario import Scenario
from simulator.scenario.overrides import parse_override


def test_values_are_yaml(mapping: dict[str, Any]) -> None:
    scenario = Scenario.from_mapping(mapping).with_overrides(
        [
            "scheduler.max_num_seqs=64",
            "workload.arrivals={process: gamma, rate: 1e1, cv: 2}",
            "slo.p99_ttft_ms=300",
            "model.kv_dtype=fp8",
            "scheduler.static.stream=true",
        ]
    )
    assert scenario.scheduler.max_num_seqs == 64
    assert scenario.workload.arrivals is not None
    assert scenario.workload.arrivals.process == "gamma"
    assert scenario.workload.arrivals.rate == 10.0
    assert scenario.slo.targets[0].limit_ms == 300.0
    assert (scenario.model.name, scenario.model.kv_dtype) == ("llama-3.1-8b", "fp8")
    assert scenario.scheduler.static.stream


def test_later_overrides_win_and_null_takes_the_default_back(mapping: dict[str, Any]) -> None:
    mapping["slo"] = {"p99_ttft_ms": 500, "ttft_ms": 500}
    scenario = Scenario.from_mapping(mapping).with_overrides(
        ["cluster.replicas=2", "cluster.replicas=3", "slo.ttft_ms=null"]
    )
    assert scenario.cluster.replicas == 3
    assert scenario.slo.root == {"p99_ttft_ms": 500.0}


def test_the_original_does_not_change(mapping: dict[str, Any]) -> None:
    scenario = Scenario.from_mapping(mapping)
    before = scenario.hash()
    scenario.with_overrides(["workload.arrivals.rate=99"])
    assert scenario.hash() == before
    assert mapping["workload"]["arrivals"]["rate"] == 8.0


def test_a_duration_takes_the_place_of_the_default_count(mapping: dict[str, Any]) -> None:
    del mapping["workload"]["num_requests"]
    workload = Scenario.from_mapping(mapping).with_overrides(["workload.duration_s=60"]).workload
    assert (workload.num_requests, workload.duration_s) == (None, 60.0)


def test_elements_of_a_list(mapping: dict[str, Any]) -> None:
    mapping["workload"]["classes"] = [{"name": "a", "share": 0.5}, {"name": "b", "share": 0.5}]
    scenario = Scenario.from_mapping(mapping).with_overrides(["workload.classes.1.priority=7"])
    assert [c.priority for c in scenario.workload.classes] == [0, 7]
    with pytest.raises(InputError, match=r"workload\.classes\[2\]: the list has 2 elements"):
        Scenario.from_mapping(mapping).with_overrides(["workload.classes.2.priority=7"])


def test_a_version_keeps_its_zero(mapping: dict[str, Any]) -> None:
    scenario = Scenario.from_mapping(mapping).with_overrides(["cluster.engine_version=0.20"])
    assert scenario.cluster.engine_version == "0.20"


@pytest.mark.parametrize("text", ["foo", "=3", "a..b=3", ".a=3"])
def test_not_an_override(mapping: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match="not of the form key=value"):
        Scenario.from_mapping(mapping).with_overrides([text])


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("scheduler.max_num_seqs=-1", "--set: scheduler.max_num_seqs is -1"),
        ("scheduler.max_num_seqs.x=1", "--set: scheduler.max_num_seqs is"),
        ("name.x=1", "which has no keys below it"),
        ("name=[1", "--set name=[1 line 1"),
        ("seed=!!python/name:os.system", "--set seed"),
    ],
)
def test_wrong_overrides_say_where_they_come_from(
    mapping: dict[str, Any], text: str, fragment: str
) -> None:
    mapping["name"] = "n"
    with pytest.raises(InputError) as refused:
        Scenario.from_mapping(mapping).with_overrides([text])
    assert fragment in str(refused.value)


def test_numpy_numbers_are_numbers(mapping: dict[str, Any]) -> None:
    mapping["scheduler"] = {"max_num_seqs": np.int64(8)}
    mapping["workload"]["arrivals"]["rate"] = np.float64(2.5)
    scenario = Scenario.from_mapping(mapping)
    assert scenario.scheduler.max_num_seqs == 8
    assert type(scenario.scheduler.max_num_seqs) is int


@pytest.mark.parametrize(
    ("text", "value"), [("0.20", "0.20"), ("'0.20'", "0.20"), ('"0.20"', "0.20"), ("null", None)]
)
def test_a_version_is_text_quoted_or_not(text: str, value: str | None) -> None:
    assert parse_override(f"cluster.engine_version={text}").value == value


def test_keys_of_slo_may_hold_dots(mapping: dict[str, Any]) -> None:
    mapping["workload"]["classes"] = [{"name": "a", "share": 1.0}]
    scenario = Scenario.from_mapping(mapping).with_overrides(
        ["slo.p99.9_ttft_ms=800", "workload.classes.0.slo.p99.5_e2el_ms=9e3"]
    )
    assert [(t.percentile, t.limit_ms) for t in scenario.slo.targets] == [(99.9, 800.0)]
    assert [t.percentile for t in scenario.workload.classes[0].slo.targets] == [99.5]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed=-1", "--seed: seed is -1"),
        ("seed=1.5", "--seed: seed is 1.5"),
        ("seed.x=1", "--seed seed: its value is 7, which has no keys"),
        ("seed", "--seed 'seed' is not of the form key=value"),
    ],
)
def test_messages_name_the_option_that_was_used(
    mapping: dict[str, Any], text: str, sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        Scenario.from_mapping(mapping).with_overrides(
            ["seed=7", parse_override(text, option="--seed")]
        )
    assert str(refused.value).startswith(sentence)
