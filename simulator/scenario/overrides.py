"""``--set a.b=c``: one key of a scenario given another value."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from simulator.errors import InputError
from simulator.scenario.source import parse_yaml, plain

Path = tuple[str | int, ...]


def parse_override(text: str) -> tuple[Path, Any]:
    """Path and value of ``a.b=c``; the value is read as YAML."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key or "" in key.split("."):
        raise InputError(f"--set {text!r} is not of the form key=value, such as cluster.replicas=2")
    parts = tuple(int(part) if part.isdigit() else part for part in key.split("."))
    if parts[-1] == "engine_version":
        version = value.strip().strip("'\"")  # 0.20 is not the number 0.2
        return parts, None if version in ("null", "~", "") else version
    return parts, plain(parse_yaml(value, f"--set {text}"), f"--set {text}")


def apply_overrides(data: dict[str, Any], overrides: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Copy of `data` with each override set, sections made where they are missing.

    Whether a key exists is left to the validation that follows.
    """
    data = copy.deepcopy(data)
    for path, value in overrides:
        if path[0] == "model" and len(path) > 1 and isinstance(data.get("model"), str):
            data["model"] = {"name": data["model"]}
        holder: Any = data
        for depth, part in enumerate(path[:-1]):
            holder = _enter(holder, part, path[: depth + 1])
        _assign(holder, path[-1], path, value)
    return data


def _enter(holder: Any, part: str | int, path: Path) -> Any:
    if isinstance(holder, list):
        return holder[_index(holder, part, path)]
    if isinstance(part, int):
        _index([], part, path)
    if holder.get(part) is None:
        holder[part] = {}
    if not isinstance(holder[part], dict | list):
        raise InputError(
            f"--set {dotted(path)}: its value is {holder[part]!r}, which has no keys below it"
        )
    return holder[part]


def _assign(holder: Any, part: str | int, path: Path, value: Any) -> None:
    if isinstance(holder, list):
        holder[_index(holder, part, path)] = value
    else:
        holder[str(part)] = value


def _index(holder: list[Any], part: str | int, path: Path) -> int:
    if not isinstance(part, int) or part >= len(holder):
        raise InputError(
            f"--set {dotted(path)}: the list has {len(holder)} elements, counted from 0, and "
            f"{part!r} is none of them"
        )
    return part


def dotted(path: Iterable[str | int]) -> str:
    """``("classes", 0, "share")`` as ``classes[0].share``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
