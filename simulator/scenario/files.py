"""Where a scenario names files: data, entries of a user's own catalogue, and code."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# module:attr or path/to/file.py:attr
OWN_CODE = r"[^:\s]+:[A-Za-z_]\w*"


class Named(NamedTuple):
    """A place that names a file."""

    holder: dict[str, Any] | list[Any]
    key: Any  # of the holder: a name, or a place in a list
    path: str
    suffix: str = ""  # ":attr" of code

    def rename(self, path: str) -> None:
        """Name another file there."""
        self.holder[self.key] = path + self.suffix


def data_files(mapping: dict[str, Any]) -> Iterator[Named]:
    """Tables that the workload is made of, in a scenario's mapping."""
    workload = mapping["workload"]
    if "trace" in workload:
        yield Named(workload["trace"], "path", workload["trace"]["path"])
    for holder in (workload, *workload.get("classes", ())):
        for section in ("lengths", "arrivals", "sessions"):
            if "file" in holder.get(section, {}):
                yield Named(holder[section], "file", holder[section]["file"])


def code(mapping: dict[str, Any]) -> Iterator[Named]:
    """Code of the user's own; the path is a module's name or ends in .py."""
    for section in ("cluster", "scheduler", "cost_model"):
        for key, value in mapping[section].items():
            if isinstance(value, str) and re.fullmatch(OWN_CODE, value):
                path, _, attr = value.rpartition(":")
                yield Named(mapping[section], key, path, f":{attr}")


def code_file(named: Named, base_dir: Path) -> Path | None:
    """Source file of a user's code; None where there is none to be found."""
    if named.path.endswith(".py"):
        path = base_dir / named.path
        return path if path.is_file() else None
    try:
        found = importlib.util.find_spec(named.path)
    except (ImportError, ValueError):
        return None
    return Path(found.origin) if found is not None and found.has_location and found.origin else None


def relative_files(mapping: dict[str, Any], base_dir: Path) -> Iterator[Named]:
    """Every file that is named relative to `base_dir` and is there.

    Catalogue names and importable modules are no files, and absolute paths are not relative.
    """
    model, cluster, cost = mapping["model"], mapping["cluster"], mapping["cost_model"]
    named = [
        *data_files(mapping),
        *code(mapping),
        Named(model, "name", model["name"])
        if isinstance(model, dict)
        else Named(mapping, "model", model),
        Named(cluster, "gpu", cluster["gpu"]),
        *(
            Named(pool, "gpu", pool["gpu"])
            for pool in (cluster.get("pools") or {}).values()
            if isinstance(pool, dict) and "gpu" in pool
        ),
        *(Named(cost, key, cost[key]) for key in ("path", "host") if cost.get(key)),
        *(
            Named(cost["coefficients"], index, path)
            for index, path in enumerate(cost.get("coefficients", ()))
        ),
    ]
    for one in named:
        path = base_dir / one.path
        folder_of_data = one.key == "path" and path.is_dir()
        if not Path(one.path).is_absolute() and (path.is_file() or folder_of_data):
            yield one
