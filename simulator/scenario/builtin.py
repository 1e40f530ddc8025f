"""Scenarios that come with the package."""

from __future__ import annotations

import itertools
from importlib.resources import files
from pathlib import Path

from simulator.errors import InputError
from simulator.scenario.unsupported import nearest


def builtin_scenarios() -> dict[str, Path]:
    """Paths of the built-in scenarios by name, in order of their names."""
    folder = Path(str(files("scenarios")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def question_of(path: Path) -> str:
    """The question that a built-in scenario answers: the first sentence of its comment."""
    comment = itertools.takewhile(
        lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines()
    )
    return " ".join(line.strip("# ") for line in comment).partition("?")[0] + "?"


def find_scenario(name: str | Path) -> Path:
    """Path of a scenario, given as a file or by its built-in name.

    Raises
    ------
    InputError
        Neither a file nor a built-in name.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.is_dir():
        raise InputError(f"{name} is a folder; give a scenario file in it")
    known = builtin_scenarios()
    if str(name) in known:
        return known[str(name)]
    near = nearest(str(name), list(known))
    hint = f"did you mean {near}?" if near else "see servecast list scenarios"
    raise InputError(f"no scenario {str(name)!r}: neither a file nor a built-in name; {hint}")
