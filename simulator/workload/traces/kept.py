"""Traces that are simulated again and again: parsed once in a process that asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.workload.traces.read import read_trace
from simulator.workload.traces.trace import Trace

MOST = 2  # files, of which a sweep may go through several

_kept: dict[tuple[Any, ...], Trace] | None = None


def keep_traces() -> None:
    """From now on, keep the last traces that this process has read.

    For workers, which read the same file for every run; a single run would only hold memory.
    """
    global _kept
    if _kept is None:
        _kept = {}


def read_kept(path: Path, format: str, **options: Any) -> Trace:
    """`read_trace`, or what it gave before for the same version of the file.

    Nobody changes a trace: windows and replicates of it are copies.
    """
    if _kept is None or not path.is_file():
        return read_trace(path, format, **options)
    version = path.stat()
    key = (path, version.st_mtime_ns, version.st_size, format, repr(options))
    if key not in _kept:
        while len(_kept) >= MOST:
            del _kept[next(iter(_kept))]
        _kept[key] = read_trace(path, format, **options)
    return _kept[key]
