"""Speed of the command as a user runs it: start-up, compilation, a million requests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import work
import yaml

REPEATS = 5
SMALL, LARGE = 200, 1_000_000
SERVECAST = Path(sys.executable).with_name("servecast")
# As users have it: modules are compiled once.
WITH_BYTECODE = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Cost(NamedTuple):
    """What a command took."""

    wall_s: float
    cpu_s: float
    peak_mb: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s ({self.cpu_s:.2f} s of CPU)"


def command(*words: str, env: dict[str, str] | None = None) -> Cost:
    """Run `servecast` and measure it."""
    started_s = time.perf_counter()
    process = subprocess.Popen(
        [SERVECAST, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=WITH_BYTECODE | (env or {}),
    )
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started_s
    assert status == 0, f"servecast {' '.join(words)} failed"
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def fastest(*words: str) -> Cost:
    """The cheapest of several runs, by CPU time: other work on the machine disturbs it least."""
    return min((command(*words) for _ in range(REPEATS)), key=lambda cost: cost.cpu_s)


def start_up() -> Iterator[tuple[str, str, str]]:
    """Help, a small run, and the very first run."""
    yield "servecast --help", str(fastest("--help")), "0.5 s"
    with tempfile.TemporaryDirectory() as folder:
        scenario = _scenario(Path(folder), SMALL)
        first = command("run", scenario, env={"NUMBA_CACHE_DIR": folder})
        yield f"servecast run, {SMALL} requests, very first", str(first), "25 s"
        command("run", scenario)
        yield f"servecast run, {SMALL} requests", str(fastest("run", scenario)), "2 s"
        out = str(Path(folder, "out"))
        cost = fastest("run", scenario, "--out", out)
        yield f"servecast run --out, {SMALL} requests", str(cost), ""


def million() -> Iterator[tuple[str, str, str]]:
    """A million requests with metrics, Parquet files and the HTML page."""
    for name, switches in {
        "": {},
        ", prefix caching and asynchronous": {"prefix_caching": True, "async_scheduling": True},
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            scenario = _scenario(Path(folder), LARGE, **switches)
            cost = command("run", scenario, "--out", str(Path(folder, "out")))
        floors = ("", "") if switches else ("15 s", "1,500 MB")
        yield f"servecast run --out, {LARGE:,} requests{name}", str(cost), floors[0]
        yield "  its peak memory", f"{cost.peak_mb:,.0f} MB", floors[1]


def _scenario(folder: Path, num_requests: int, **switches: bool) -> str:
    """The frozen work as a file."""
    path = folder / "speed.yaml"
    path.write_text(yaml.safe_dump(work.mapping(num_requests, **switches)), encoding="utf-8")
    return str(path)
