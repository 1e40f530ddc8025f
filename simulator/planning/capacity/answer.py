"""What a question about capacity is answered with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.planning.capacity.changes import Tried
from simulator.planning.capacity.margin import Margin
from simulator.planning.capacity.search import Option
from simulator.planning.statistics import Interval
from simulator.scenario import Resolved

# Of the load that is carried; where none is, a nearly idle system's would mean nothing.
COSTS = ("cost_per_million_output_tokens", "cost_per_million_total_tokens")


@dataclass(frozen=True)
class ModelBand:
    """The answer if all step costs are wrong by what was measured of whole systems.

    Attributes
    ----------
    low, high : greatest load per replica, or replicas; in the order of the numbers.
    error : relative error of step costs, a factor of 1 + error either way.
    basis : where the error comes from, in a clause.
    """

    low: float
    high: float
    error: float
    basis: str


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How much a system carries within its limits, or how many replicas a load needs.

    Attributes
    ----------
    unit : of loads: ``"req/s"`` or ``"clients"``.
    asked : load of all replicas that was asked about: the scenario's own, or ``rate``.
    sized : whether the number of replicas was looked for; else they were given.
    per_replica : greatest load of one replica (alone, where their number was looked for);
        its interval is over replicates.
    whole : greatest load of all replicas together.
    replicas : replicas that were given, or that are needed, with those that could be.
    gpus, gpu : of these replicas together, and their kind.
    dollars_per_hour : of these.
    binding : the objective that gives way first, at the greatest load.
    summary : figures of a run at `load`: of the load asked about on the replicas needed, or
        of the greatest load of those given.
    load : of that run, all replicas together.
    model_band : None where the error of the step costs is not known.
    next_change : the cheapest one that was tried and lets each replica carry more.
    tried : all that brought something.
    resolved : the system of the answer, with where its numbers come from.
    runs : simulations behind the answer.
    notes : how the runs were made.
    what_if : answers to other questions.
    options : of a search, the cheapest first; the answer is about the first.
    """

    unit: str
    asked: float
    sized: bool
    per_replica: Interval
    whole: float
    replicas: Interval
    gpus: int
    gpu: str
    dollars_per_hour: float
    binding: Margin
    summary: dict[str, Any]
    load: float
    model_band: ModelBand | None
    next_change: Tried | None
    tried: Sequence[Tried]
    resolved: Resolved
    runs: int
    notes: list[str]
    what_if: list[dict[str, Any]] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def headroom(self) -> float:
        """How much more than was asked about the replicas carry, relative; below 0: less."""
        return self.whole / self.asked - 1

    @property
    def met(self) -> bool:
        """Whether the replicas carry within the limits what was asked about."""
        return self.headroom >= 0 or (self.sized and self.per_replica.estimate > 0)

    def to_mapping(self) -> dict[str, Any]:
        """What ``servecast capacity --json`` prints."""
        band = self.model_band
        return {
            "name": self.summary["name"],
            "unit": self.unit,
            "asked": self.asked,
            "met": self.met,
            "max_rate_per_replica": self.per_replica.estimate,
            "rate_ci95": [self.per_replica.low, self.per_replica.high],
            "replicas": int(self.replicas.estimate),
            "replicas_ci95": [int(self.replicas.low), int(self.replicas.high)],
            "gpus": self.gpus,
            "gpu": self.gpu,
            "model_band": None if band is None else [band.low, band.high],
            "model_error": None if band is None else band.error,
            "model_error_basis": None if band is None else band.basis,
            "state": self.summary["state"],
            "limits": self.summary["limits"],
            "binding": {
                "objective": self.binding.objective,
                "limit_ms": self.binding.limit_ms,
                "value_ms": self.binding.value_ms,
            },
            "attribution": self.summary["attribution"],
            "headroom": self.headroom,
            "next_change": None if self.next_change is None else self.next_change.as_dict(),
            "tried": [tried.as_dict() for tried in self.tried],
            **{key: self.summary[key] if self.whole > 0 else None for key in COSTS},
            "dollars_per_hour": self.dollars_per_hour,
            "what_if": self.what_if,
            "options": [option.as_dict() for option in self.options],
            "load_of_run": self.load,
            "slo": self.summary["slo"],
            "runs": self.runs,
            "notes": self.notes,
            "provenance": self.resolved.cost.provenance,
        }
