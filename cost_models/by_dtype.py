"""Measured layers of a kind that not every model has: one file for each GPU and engine.

Each holds what was fitted for every data type, and how well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files
from cost_models.errors import InputError

D = TypeVar("D", bound=BaseModel)


class ByDtype(BaseModel, Generic[D]):
    """Measured layers of one GPU under one engine, by data type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = Field(ge=1, le=1)
    gpu: str
    engine: str
    version: str
    source: str
    licence: str
    dtypes: dict[str, D]


C = TypeVar("C", bound=ByDtype[Any])


@lru_cache(maxsize=16)
def _read(schema: type[C], path: Path, modified_ns: int) -> C:
    return files.validate(schema, files.read_json(path), str(path))


def shipped(schema: type[C], folder: Path) -> Iterator[C]:
    """All of a kind that are in the package."""
    for path in sorted(folder.glob("*.json")):
        yield _read(schema, path, path.stat().st_mtime_ns)


def load(schema: type[C], folder: Path, gpu: str, engine: str, what: str) -> C:
    """The shipped file of a GPU under an engine.

    Raises
    ------
    InputError : when there is none, naming `what` is not measured and where it is.
    """
    path = folder / f"{gpu}-{engine}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise InputError(f"no measured {what} for {gpu} under {engine}; there are {known}.")
    found: C = _read(schema, path, path.stat().st_mtime_ns)
    return found
