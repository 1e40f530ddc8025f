"""Measured rows of a file, whatever its form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError
from simulator.validation import bench_json, csv_rows
from simulator.validation.measured import CannotSimulateError, Measured


def read(path: Path, given: Mapping[str, Any]) -> Iterator[Measured | CannotSimulateError]:
    """Rows of a CSV table of measured runs, or the run of a benchmark's JSON result.

    Parameters
    ----------
    path : a .csv (also .csv.gz) or .json file.
    given : what the caller knows about the runs, see `bench_json.read`.

    Raises
    ------
    InputError : when it is neither.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a CSV table or a JSON result.")
    if path.suffix == ".json":
        try:
            yield bench_json.read(path, given)
        except CannotSimulateError as reason:
            yield reason
    elif ".csv" in path.suffixes:
        yield from csv_rows.read(path, given.get("engine_version"))
    else:
        raise InputError(f"{path}: give a .csv table of measured runs or a .json result.")
