"""A scenario's text: YAML without surprises, and the line on which each key stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import yaml

from simulator.errors import InputError

_MAX_VALUES = 100_000
_MAX_DEPTH = 20


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate keys and reads 1e-3 as a number, as YAML 1.2 does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = key_node.value
            line = key_node.start_mark.line + 1
            if key in seen and key != "<<":
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key} stands twice (first on line {seen[key]}); remove one",
                    problem_mark=key_node.start_mark,
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+"),
    list("-+.0123456789"),
)


def parse_yaml(text: str, name: str) -> Any:
    """Value of one YAML document.

    Raises
    ------
    InputError
        Syntax error or duplicate key, with `name` and the line.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name} line {mark.line + 1}" if mark else name
        problem = " ".join(str(error.problem or error.context).split())
        raise InputError(f"{where}: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deep to be a scenario") from None


def read_mapping(path: Path) -> tuple[dict[str, Any], str]:
    """Mapping of a scenario file, and the file's text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    data = parse_yaml(text, str(path))
    if not isinstance(data, dict):
        what = "empty" if data is None else f"a {type(data).__name__}"
        raise InputError(f"{path}: a scenario is a mapping of keys, but this file is {what}")
    return plain(data, str(path)), text


def plain(data: Any, name: str) -> Any:
    """Deep copy in plain types: dict, list, str, int, float, bool, None.

    NumPy scalars, tuples and paths become what YAML would have given.
    """
    count = 0

    def copy(value: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if count > _MAX_VALUES or depth > _MAX_DEPTH:
            raise InputError(f"{name}: too large or nested too deep to be a scenario")
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise InputError(f"{name}: the key {key!r} must be text; put it in quotes")
            return {key: copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, PurePath):
            return str(value)
        return value.item() if hasattr(value, "item") else value

    return copy(data, 0)


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """Line of the key `path` in the YAML `text`, or of its deepest parent that is there."""
    node = yaml.compose(text, _Loader)
    line = None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if part not in pairs:
                break
            key, node = pairs[part]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
