"""Finding and reading the catalogue's YAML files, and saying what is wrong with one."""

from __future__ import annotations

import copy
import difflib
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cost_models.errors import InputError

ROOT = Path(__file__).parent

# The same YAML, read by C code where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

M = TypeVar("M", bound=BaseModel)


def names(kind: str) -> list[str]:
    """Names in the catalogue of one kind: ``"gpus"``, ``"models"`` or ``"engines"``."""
    return sorted(path.stem for path in (ROOT / kind).glob("*.yaml"))


def find(kind: str, name: str) -> Path:
    """The file of catalogue entry `name`, or the user's own file when `name` is a path.

    Raises
    ------
    InputError : when there is neither, naming the nearest entry.
    """
    if name in names(kind):
        return ROOT / kind / f"{name}.yaml"
    path = Path(name)
    if path.is_file():
        return path
    for known in names(kind):
        entry = ROOT / kind / f"{known}.yaml"
        if name in read_mapping(entry).get("aliases", ()):
            return entry
    near = difflib.get_close_matches(name.lower(), names(kind), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names(kind))}."
    raise InputError(
        f"{kind[:-1]} {name!r} is neither in the catalogue nor a file; {hint} "
        f"(`servecast list {kind}` shows all.)"
    )


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML or JSON file (JSON is YAML)."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    return copy.deepcopy(_parsed(path, (found.st_mtime_ns, found.st_size)))


@functools.lru_cache(maxsize=64)
def _parsed(path: Path, version: tuple[int, int]) -> dict[str, Any]:
    """`read_mapping` once for each version of a file: many runs ask for the same."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{path}{line}: is neither YAML nor JSON.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, a mapping of keys is needed.")
    return data


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}).") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: is not JSON ({error.msg}).") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, an object is needed.")
    return data


def validate(schema: type[M], data: Mapping[str, Any], where: str) -> M:
    """`data` as `schema`; the first fault becomes one sentence that starts with `where`."""
    try:
        return schema.model_validate(dict(data))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        value = "" if fault["type"] == "missing" else f" = {fault['input']!r}"
        raise InputError(f"{where}: {key}{value}: {fault['msg'].lower()}.") from None
