"""Outcomes on disk: a file for each run, named by what it depends on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.errors import InputError
from simulator.planning.sweep.plan import Plan
from simulator.report.files import to_json, write_text

# What became of a run: its summary and provenance, or its error.
Outcome = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of a sweep.

    ``points/KEY.json`` appears whole when a run has ended, so that whatever kills the sweep
    loses only what was running; a changed scenario has other keys.  ``manifest.json`` says
    which point and replicate each key is.
    """

    folder: Path

    def open(self, plan: Plan, resume: bool) -> None:
        """Make the folder for this plan.

        Raises
        ------
        InputError : it has outcomes already, and nobody said that they are to be used.
        """
        runs = self.folder / "points"
        if not resume and runs.is_dir() and any(runs.iterdir()):
            raise InputError(
                f"--out {self.folder} has results of a sweep; add --resume to go on with it, or "
                "choose another folder"
            )
        try:
            runs.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / "manifest.json", to_json(plan.to_mapping()))
        except OSError as error:
            raise InputError(
                f"--out {self.folder}: cannot be written: {error.strerror}; choose another folder"
            ) from None

    def read(self, key: str) -> Outcome | None:
        """Outcome of a run that succeeded; None where it is still to be done."""
        try:
            outcome = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        done = isinstance(outcome, dict) and isinstance(outcome.get("summary"), dict)
        return outcome if done else None

    def write(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        write_text(self._path(key), to_json(outcome))

    def _path(self, key: str) -> Path:
        return self.folder / "points" / f"{key}.json"
