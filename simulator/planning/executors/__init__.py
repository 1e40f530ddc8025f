"""Do the same with many items: here, in processes of this machine, or on a Ray cluster.

All give the same results, in the order in which the items end; only the time that it takes
differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from simulator.errors import InputError
from simulator.planning.executors.kernels import compile_kernels
from simulator.planning.executors.processes import Processes
from simulator.planning.executors.serial import Serial
from simulator.planning.executors.work import Done, Work

__all__ = [
    "Done",
    "Executor",
    "Processes",
    "Serial",
    "Work",
    "by_name",
    "compile_kernels",
    "local",
]


class Executor(Protocol):
    """Anything that maps work over items."""

    def map(self, work: Work, items: Sequence[Any]) -> Iterator[Done]:
        """What came of each item; an item that fails says why and stops no other."""


def by_name(name: str, jobs: int | None = None, address: str | None = None) -> Executor:
    """Executor ``local`` or ``ray``.

    Parameters
    ----------
    jobs : workers; None for as many as there are cores, here or in the cluster.
    address : of the Ray cluster; None for one that is started on this machine.
    """
    if name == "ray":
        from simulator.planning.executors.on_ray import OnRay

        return OnRay(jobs, address)
    if name != "local":
        raise InputError(f"--executor {name}: choose local or ray")
    if address is not None:
        raise InputError(f"--address {address} is of a Ray cluster; add --executor ray")
    return local(jobs)


def local(jobs: int | None = None) -> Executor:
    """Executor on this machine.

    Parameters
    ----------
    jobs : processes; None for as many as there are cores, 1 for none but this one.
    """
    count = cores() if jobs is None else jobs
    return Serial() if count == 1 else Processes(count)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
