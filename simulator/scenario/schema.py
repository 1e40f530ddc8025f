"""JSON Schema of the scenario file, for editors: ``python -m simulator.scenario.schema``.

The file is generated from the models and shipped, so that an editor needs no Python; a
test checks that it is current.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulator.scenario.scenario import Scenario

SCHEMA_FILE = Path(__file__).with_name("scenario.schema.json")


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a scenario file."""
    schema = Scenario.model_json_schema()
    # Conveniences that the models accept before validation.
    properties = schema["properties"]
    properties["model"]["anyOf"] = [{"type": "string"}, {"$ref": properties["model"].pop("$ref")}]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "servecast scenario"
    return schema


def text() -> str:
    """Content of the shipped file."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(text(), encoding="utf-8")
