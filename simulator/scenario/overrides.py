"""``--set a.b=c``: one key of a scenario given another value."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import yaml

from simulator.errors import InputError
from simulator.scenario.source import parse_yaml, plain

Path = tuple[str | int, ...]

# Sections whose keys may hold dots themselves, such as p99.9_ttft_ms.
FLAT_SECTIONS = ("slo",)


class Override(NamedTuple):
    """A key and the value that it is given."""

    path: Path
    value: Any
    option: str = "--set"  # of the command line, where messages about it begin

    @property
    def text(self) -> str:
        """``a.b=c``, as `parse_override` reads it."""
        return f"{'.'.join(map(str, self.path))}={in_line(self.value)}"


def parse_override(text: str | Override, option: str = "--set") -> Override:
    """``a.b=c`` taken apart; the value is read as YAML.

    Parameters
    ----------
    text : an `Override` is returned as it is.
    option : of the command line that it was given with, for messages about it.
    """
    if isinstance(text, Override):
        return text
    key, equals, value = text.partition("=")
    parts = key_path(key.strip())
    if not equals or "" in parts:
        raise InputError(
            f"{option} {text!r} is not of the form key=value, such as cluster.replicas=2"
        )
    if parts[-1] == "engine_version":
        version = value.strip().strip("'\"")  # 0.20 is not the number 0.2
        given = None if version in ("null", "~", "") else version
        return Override(parts, given, option)
    name = f"{option} {text}"
    return Override(parts, plain(parse_yaml(value, name), name), option)


def with_seed(settings: Sequence[str] | None, seed: int | None) -> list[Override]:
    """What ``--set`` and ``--seed`` of a command line say."""
    overrides = [parse_override(text) for text in settings or ()]
    if seed is not None:
        overrides.append(Override(("seed",), seed, "--seed"))
    return overrides


def key_path(key: str) -> Path:
    """``a.0.b`` as the path of a key."""
    parts = key.split(".")
    for depth, part in enumerate(parts[:-1]):
        if part in FLAT_SECTIONS:
            parts[depth + 1 :] = [".".join(parts[depth + 1 :])]
            break
    return tuple(int(part) if part.isdigit() else part for part in parts)


def apply_overrides(data: dict[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Copy of `data` with each override set, sections made where they are missing.

    Whether a key exists is left to the validation that follows.
    """
    data = copy.deepcopy(data)
    for override in overrides:
        path = override.path
        if path[0] == "model" and len(path) > 1 and isinstance(data.get("model"), str):
            data["model"] = {"name": data["model"]}
        holder: Any = data
        for depth, part in enumerate(path[:-1]):
            holder = _enter(holder, part, override, depth)
        _assign(holder, override)
    return data


def _enter(holder: Any, part: str | int, override: Override, depth: int) -> Any:
    if isinstance(holder, list):
        return holder[_index(holder, part, override, depth)]
    if isinstance(part, int):
        _index([], part, override, depth)
    if holder.get(part) is None:
        holder[part] = {}
    if not isinstance(holder[part], dict | list):
        raise InputError(
            f"{override.option} {dotted(override.path[: depth + 1])}: its value is "
            f"{holder[part]!r}, which has no keys below it"
        )
    return holder[part]


def _assign(holder: Any, override: Override) -> None:
    part, depth = override.path[-1], len(override.path) - 1
    if isinstance(holder, list):
        holder[_index(holder, part, override, depth)] = override.value
    else:
        holder[str(part)] = override.value


def _index(holder: list[Any], part: str | int, override: Override, depth: int) -> int:
    if not isinstance(part, int) or part >= len(holder):
        raise InputError(
            f"{override.option} {dotted(override.path[: depth + 1])}: the list has {len(holder)} "
            f"elements, counted from 0, and {part!r} is none of them"
        )
    return part


def in_line(value: Any) -> str:
    """A value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("...\n").strip()


def dotted(path: Iterable[str | int]) -> str:
    """``("classes", 0, "share")`` as ``classes[0].share``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
