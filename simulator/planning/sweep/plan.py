"""What a sweep will simulate: checked and addressed before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simulator.errors import InputError
from simulator.metrics.slo import refuse_unmeasurable
from simulator.planning.sweep.points import Point
from simulator.scenario import Scenario
from simulator.scenario.files import relative_files
from simulator.scenario.hashing import hash_of
from simulator.scenario.overrides import Override
from simulator.scenario.step_options import entry_of


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation.

    Attributes
    ----------
    point : its number.
    replicate : number of its random sample.
    overrides : what makes the sweep's scenario the point's.
    key : address of its outcome: a digest of the point's scenario, all files that this
        names, and the replicate.
    """

    point: int
    replicate: int
    overrides: tuple[Override, ...]
    key: str


@dataclass(frozen=True)
class Plan:
    """The points of a sweep that are scenarios, and why the others are not.

    Attributes
    ----------
    scenario : what the points have in common.
    points : all of them.
    replicates : of each point.
    runs : point by point.
    refused : a sentence for each point that is not a valid scenario, by its number.
    policies : scheduling policies of the runs, as they are compiled.
    files : that the runs name, relative to the scenario's folder.
    """

    scenario: Scenario
    points: Sequence[Point]
    replicates: int
    runs: Sequence[Run]
    refused: dict[int, str]
    policies: frozenset[str]
    files: frozenset[str]

    @cached_property
    def keys(self) -> list[str]:
        """The keys that are swept."""
        return list(self.points[0].values)

    def to_mapping(self) -> dict[str, Any]:
        """What manifest.json holds."""
        addresses: dict[int, list[str]] = {}
        for run in self.runs:
            addresses.setdefault(run.point, []).append(run.key)
        return {
            "scenario": self.scenario.to_mapping(),
            "replicates": self.replicates,
            "points": [
                {
                    "point": point.number,
                    "values": point.values,
                    "runs": addresses.get(point.number, []),
                    "error": self.refused.get(point.number),
                }
                for point in self.points
            ],
        }


def plan(scenario: Scenario, points: Sequence[Point], replicates: int) -> Plan:
    """Check each point; one that is no scenario is refused, and the others go on.

    Raises
    ------
    InputError
        No point, or none that is a scenario: then what the first is refused for.
    """
    if not points or not points[0].values:
        raise InputError("a sweep needs values to go through, such as scheduler.max_num_seqs=32,64")
    runs: list[Run] = []
    refused: dict[int, str] = {}
    policies: set[str] = set()
    files: set[str] = set()
    first: InputError | None = None
    for point in points:
        try:
            changed = scenario.with_overrides(point.overrides)
            refuse_unmeasurable(changed)
            mapping = changed.to_mapping()
            digest = hash_of(mapping, changed.base_dir)
        except InputError as error:
            first = first or error
            refused[point.number] = str(error)
            continue
        policies.add(entry_of(changed))
        files.update(named.path for named in relative_files(mapping, changed.base_dir))
        overrides = tuple(point.overrides)
        runs += [
            Run(point.number, replicate, overrides, address(digest, replicate))
            for replicate in range(replicates)
        ]
    if first is not None and not runs:
        raise first
    return Plan(scenario, points, replicates, runs, refused, frozenset(policies), frozenset(files))


def address(scenario_hash: str, replicate: int) -> str:
    """Where the outcome of a run is kept: equal scenarios and replicates, equal outcomes."""
    return hashlib.sha256(f"{scenario_hash} {replicate}".encode()).hexdigest()[:32]
