"""Built-in scenarios, the template of `servecast init` and the JSON Schema."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from simulator.scenario import Scenario, builtin_scenarios
from simulator.scenario.builtin import question_of
from simulator.scenario.schema import SCHEMA_FILE, text

TEMPLATE = Path(str(files("simulator.cli").joinpath("template.yaml")))
SHIPPED = [*builtin_scenarios().values(), TEMPLATE]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_are_valid(path: Path) -> None:
    scenario = Scenario.from_yaml(path)
    assert scenario.workload.trace is None, "needs no file outside the package"
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize(("name", "path"), list(builtin_scenarios().items()))
def test_each_answers_a_question(name: str, path: Path) -> None:
    assert Scenario.from_yaml(name).name == name
    question = question_of(path)
    assert 20 < len(question) < 130
    assert question.endswith("?")


def test_the_schema_is_current() -> None:
    # When it is not: python -m simulator.scenario.schema
    assert SCHEMA_FILE.read_text(encoding="utf-8") == text()


def test_the_schema_refuses_what_the_models_refuse(mapping: dict[str, Any]) -> None:
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(mapping, schema)
    for section, key, value in [
        ("cluster", "gpus", 3),
        ("cluster", "replicas", 0),
        ("slo", "p99_tttf_ms", 3),
        ("scheduler", "order", "fcsf"),
    ]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**mapping, section: {key: value}}, schema)


def test_files_named_beside_a_built_in_scenario_are_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = Scenario.from_yaml("chat-8b-h100", ["scheduler.policy=mine.py:compose"])
    assert scenario.base_dir.resolve() == tmp_path.resolve()
