"""Simulate measured rows and sum up how far off the predictions are."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.simulation import simulate
from simulator.validation.conditions import scenario
from simulator.validation.measured import METRICS, CannotSimulateError, Measured
from simulator.validation.plausibility import with_doubts


@dataclass(frozen=True)
class Prediction:
    """A measured row and what the simulator says about it."""

    row: Measured
    predicted: dict[str, float]
    aiconfigurator: dict[str, float] = field(default_factory=dict)

    @property
    def errors_pct(self) -> dict[str, float]:
        """Signed error in % of what was measured, by result."""
        return _errors_pct(self.row, self.predicted)

    @property
    def aiconfigurator_errors_pct(self) -> dict[str, float]:
        """The same of AIConfigurator's predictions, where there are any."""
        return _errors_pct(self.row, self.aiconfigurator)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "where": self.row.where,
            "group": list(self.row.group),
            "conditions": self.row.conditions,
            "measured": self.row.results,
            "predicted": self.predicted,
            "error_pct": self.errors_pct,
            "doubt": self.row.doubt,
            "aiconfigurator": self.aiconfigurator,
        }


def _errors_pct(row: Measured, predicted: dict[str, float]) -> dict[str, float]:
    return {
        name: 100 * (predicted[name] / measured - 1)
        for name, measured in row.results.items()
        if measured > 0 and np.isfinite(predicted.get(name, np.nan))
    }


@dataclass(frozen=True)
class Scores:
    """All rows of one call."""

    predictions: tuple[Prediction, ...]
    left_out: dict[str, int]  # reason -> rows

    @property
    def doubts(self) -> dict[tuple[str, str, str], str]:
        """Groups whose figures contradict their conditions, and how."""
        rows = (prediction.row for prediction in self.predictions)
        return {row.group: row.doubt for row in rows if row.doubt}


def predict(row: Measured, host: Path | None = None) -> Prediction:
    """Simulate one row, with the engine's own time from a file or as its release has it.

    Raises
    ------
    CannotSimulateError : where the catalogue or this version lacks something.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            summary = simulate(scenario(row, Path(folder), host)).summary
        except InputError as error:
            raise CannotSimulateError(str(error)) from None
    return Prediction(row, {name: float(summary[METRICS[name]]) for name in row.results})


def validate(
    rows: Iterable[Measured | CannotSimulateError],
    progress: Callable[[int], None] | None = None,
    host: Path | None = None,
    beside: Callable[[Measured], dict[str, float]] | None = None,
) -> Scores:
    """Predictions of all rows that can be simulated, and why the others cannot."""
    predictions: list[Prediction] = []
    left_out: dict[str, int] = defaultdict(int)
    for index, row in enumerate(with_doubts(rows)):
        if progress is not None:
            progress(index)
        try:
            if isinstance(row, CannotSimulateError):
                raise row
            found = predict(row, host)
            predictions.append(replace(found, aiconfigurator=beside(row)) if beside else found)
        except CannotSimulateError as reason:
            left_out[str(reason)] += 1
    return Scores(tuple(predictions), dict(sorted(left_out.items(), key=lambda kv: -kv[1])))


def by_group(predictions: Iterable[Prediction]) -> list[dict[str, Any]]:
    """Errors by engine release, GPU and model: of each result, over the group's rows.

    `bias` is the mean signed error, `median` and `p90` are of its magnitude, in %.
    """
    groups: dict[tuple[str, str, str], list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        groups[prediction.row.group].append(prediction)
    return [
        {"engine": key[0], "gpu": key[1], "model": key[2], "rows": len(members)}
        | {"errors": _errors([member.errors_pct for member in members])}
        | {"aiconfigurator": _errors([member.aiconfigurator_errors_pct for member in members])}
        for key, members in sorted(groups.items())
    ]


def _errors(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for errors in runs:
        for name, error in errors.items():
            found[name].append(error)
    return {name: summary(np.array(found[name])) for name in METRICS if name in found}


def summary(errors: NDArray[np.float64]) -> dict[str, float]:
    """Rows, bias, mean and median and p90 of the magnitude, and the worst, in %."""
    size = np.abs(errors)
    return {
        "rows": len(errors),
        "bias_pct": float(errors.mean()),
        "mape_pct": float(size.mean()),
        "median_pct": float(np.median(size)),
        "p90_pct": float(np.quantile(size, 0.9)),
        "worst_pct": float(errors[size.argmax()]),
    }
