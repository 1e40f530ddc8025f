"""Keys of the scenario's contract that this version does not simulate.

They are refused by name, so that nobody reads a result that silently ignores a line of
the file.  To enable one, delete its row here and add it to its section.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from simulator.scenario.overrides import Path, dotted

# Key -> the values that mean "off" and so may stand in a file.
KEYS: dict[str, tuple[Any, ...]] = {
    "cluster.faults": ([], None),
}


def nearest(name: str, allowed: list[str]) -> str | None:
    """Name of `allowed` that `name` is probably a misspelling of."""
    found = difflib.get_close_matches(name, allowed, 1, cutoff=0.6)
    return found[0] if found else None


def program() -> str:
    """Name and minor version, as error messages give them."""
    return "servecast " + ".".join(version("servecast").split(".")[:2])


def first_unsupported(data: dict[str, Any]) -> tuple[Path, str] | None:
    """Path of the first key that this version does not simulate, and a sentence.

    Keys that are switched off are taken out of `data`; None if nothing else is left.
    """
    for pattern, off in KEYS.items():
        for holder, path in _find(data, pattern.split("."), ()):
            if not any(holder[path[-1]] == value for value in off):
                return path, f"{dotted(path)} is not supported by {program()}; remove it"
            del holder[path[-1]]
    return None


def _find(data: Any, pattern: list[str], at: Path) -> Iterator[tuple[dict[Any, Any], Path]]:
    """Mappings in `data` that have the last key of `pattern`, and the key's path."""
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        for index, item in enumerate(data if isinstance(data, list) else ()):
            yield from _find(item, rest, (*at, index))
    elif isinstance(data, dict) and head in data:
        if rest:
            yield from _find(data[head], rest, (*at, head))
        else:
            yield data, (*at, head)
