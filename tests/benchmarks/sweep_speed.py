"""Speed of a sweep: 200 points of 20,000 requests, on one core and on two."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import command_speed
import work
import yaml

POINTS, REQUESTS = 200, 20_000
FLOOR_S, FLOOR_RATIO = 60, 1.6


def sweep() -> Iterator[tuple[str, str, str]]:
    """The command as a user gives it, files and tables included."""
    values = ",".join(str(400 + i) for i in range(POINTS))
    took_s = {}
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "speed.yaml")
        scenario.write_text(yaml.safe_dump(work.mapping(REQUESTS)), encoding="utf-8")
        for jobs in (1, 2):
            started_s = time.perf_counter()
            cost = command_speed.command(
                "sweep", str(scenario), "--set", f"scheduler.max_num_seqs={values}",
                "--jobs", str(jobs), "--out", str(Path(folder, f"out{jobs}")),
            )  # fmt: skip
            took_s[jobs] = time.perf_counter() - started_s
            what = f"servecast sweep, {POINTS} points of {REQUESTS:,} requests, jobs {jobs}"
            yield what, str(cost), f"{FLOOR_S} s" if jobs == 2 else ""
    yield "  one job's time / two jobs'", f"{took_s[1] / took_s[2]:.2f}", f"{FLOOR_RATIO}"
