"""The folder that a run leaves behind."""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from simulator.errors import InputError
from simulator.report.files import to_json, write_text
from simulator.report.html import html_page
from simulator.report.tables import columns_markdown, write_requests, write_steps
from simulator.scenario.files import relative_files

if TYPE_CHECKING:
    from simulator.scenario import Scenario
    from simulator.simulation import Result

LIBRARIES = ("servecast", "numpy", "numba", "simpy", "pandas", "pyarrow", "matplotlib")


def write_outputs(
    result: Result, folder: str | Path, *, steps: bool = True, wall_s: float | None = None
) -> None:
    """Write everything that is known about a run.

    scenario.yaml (resolved, runs as it is), summary.json, requests.parquet, steps.parquet,
    report.html, COLUMNS.md and run_info.json.  All but run_info.json, which holds the
    wall-clock facts, are the same bytes each time.

    Parameters
    ----------
    folder : is made if needed; files of an earlier run are replaced one by one.
    steps : also write one row per engine step.
    wall_s : how long the simulation took.

    Raises
    ------
    InputError : where the folder cannot be written to.
    """
    folder = Path(folder)
    prepare_folder(folder)
    try:
        write_text(folder / "scenario.yaml", scenario_yaml(result.resolved.scenario, folder))
        write_text(folder / "summary.json", to_json(result.summary))
        # The tables of a long run take seconds, in which the page can be drawn.
        with ThreadPoolExecutor(1) as beside:
            tables = beside.submit(_write_tables, result, folder, steps)
            page = html_page(result)
            tables.result()
        write_text(folder / "report.html", page)
        write_text(folder / "COLUMNS.md", columns_markdown())
        write_text(folder / "run_info.json", to_json(run_info(wall_s)))
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}.") from None


def _write_tables(result: Result, folder: Path, steps: bool) -> None:
    write_requests(result.recording, folder / "requests.parquet", result.attribution)
    if steps:
        write_steps(result.recording, folder / "steps.parquet")
    else:  # one that an earlier run left would belong to other results
        (folder / "steps.parquet").unlink(missing_ok=True)


def prepare_folder(folder: Path, option: str = "--out") -> None:
    """Make the folder that `option` names, or say at once why that cannot be.

    Raises
    ------
    InputError : it is a file, or must not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option} {folder}: cannot be made: {error.strerror}.") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {folder}: cannot be written to; choose another folder.")


def scenario_yaml(scenario: Scenario, folder: Path) -> str:
    """The scenario with its relative paths as seen from `folder`."""
    data = scenario.to_mapping()
    for named in list(relative_files(data, scenario.base_dir)):
        path = (scenario.base_dir / named.path).resolve()
        named.rename(os.path.relpath(path, folder.resolve()))
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def run_info(wall_s: float | None) -> dict[str, Any]:
    """When, where and with what the run was made: all that may differ between equal runs."""
    return {
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_s": wall_s,
        "versions": {"python": platform.python_version()} | {n: version(n) for n in LIBRARIES},
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cpus": os.cpu_count(),
        },
    }
