"""The engine's own time, fitted to measured runs of the user's engine.

Mean TPOT tells what a step takes beyond its kernels: with synchronous scheduling a time per
step and one per sequence; with asynchronous scheduling these are hidden, and the gap between
steps is what shows.  Mean TTFT then tells what a request waits before the queue.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from cost_models import catalog
from cost_models.catalog import HostTime
from simulator.errors import InputError
from simulator.scenario import resolve
from simulator.validation.conditions import scenario
from simulator.validation.measured import CannotSimulateError, Measured
from simulator.validation.score import predict

TPOT, TTFT = "tpot_ms_mean", "ttft_ms_mean"
# Beyond these something else is wrong.
LARGEST_S = {"per_step_s": 0.05, "per_seq_s": 0.001, "gap_s": 0.05, "per_request_s": 0.2}
MOST_ROUNDS = 4  # the results are nearly linear in each parameter
STEP = 0.3  # of a parameter, by which it is tried

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HostFit:
    """What was fitted.

    Attributes
    ----------
    host : the engine's own time.
    fitted : names of its parameters that the runs decided; the others are the release's.
    runs : by run and result the signed error in %, before, after, and with the run left out
        of the fit (to first order), None where it alone decides a parameter.
    """

    host: HostTime
    fitted: tuple[str, ...]
    runs: list[dict[str, Any]]

    def dump(self) -> str:
        """The file that `cost_model.host` takes."""
        facts = {**self.host.model_dump(), "fitted": self.fitted, "runs": self.runs}
        return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


@dataclass
class _Runs:
    """Measured runs, simulated with one host time after another."""

    rows: Sequence[Measured]
    progress: Callable[[int, int], None] | None
    most: int
    done: int = field(default=0)

    def log_errors(self, host: HostTime, metric: str) -> Array:
        """Log of predicted / measured of each run that has the result."""
        found = []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "host.json"
            file.write_text(json.dumps(host.model_dump()), encoding="utf-8")
            for row in self.with_result(metric):
                try:
                    predicted = predict(row, file).predicted
                except CannotSimulateError as reason:
                    raise InputError(f"{row.where}: cannot be simulated: {reason}") from None
                found.append(np.log(predicted[metric] / row.results[metric]))
                self.done += 1
                if self.progress is not None:
                    self.progress(self.done, self.most)
        return np.array(found)

    def with_result(self, metric: str) -> list[Measured]:
        return [row for row in self.rows if row.results.get(metric, 0) > 0]


def fit_host(
    rows: Sequence[Measured], progress: Callable[[int, int], None] | None = None
) -> HostFit:
    """Fit to measured runs of one engine release.

    Parameters
    ----------
    rows : runs with a mean TPOT.
    progress : called with the number of simulations done, and the most there can be.

    Raises
    ------
    InputError : for runs of several releases, without TPOT, or that cannot be simulated.
    """
    releases = sorted({(row.engine, str(row.engine_version)) for row in rows})
    if len(releases) != 1:
        told = ", ".join(" ".join(release) for release in releases) or "none"
        raise InputError(f"the runs are of several releases ({told}); fit one at a time.")
    lacking = [row.where for row in rows if TPOT not in row.results]
    if lacking:
        raise InputError(f"{lacking[0]}: has no mean TPOT, which the host time is fitted to.")
    first = rows[0]
    defaults = catalog.engine_defaults(first.engine, first.engine_version, catalog.gpu(first.gpu))
    names = _decided_by_tpot(rows)
    runs = _Runs(rows, progress, len(rows) * (MOST_ROUNDS * (3 + len(names)) + 2))
    host, steps = _fit(runs, TPOT, names, defaults.host)
    if not runs.with_result(TTFT):
        return HostFit(_named(host, rows), tuple(names), steps)
    host, waits = _fit(runs, TTFT, ["per_request_s"], host)
    return HostFit(_named(host, rows), (*names, "per_request_s"), steps + waits)


def _named(host: HostTime, rows: Sequence[Measured]) -> HostTime:
    return host.model_copy(update={"source": f"fitted to {', '.join(row.where for row in rows)}"})


def _decided_by_tpot(rows: Sequence[Measured]) -> list[str]:
    """What these runs can tell apart."""
    with tempfile.TemporaryDirectory() as folder:
        resolved = resolve(scenario(rows[0], Path(folder))).scenario
    if resolved.scheduler.async_scheduling:
        return ["gap_s"]
    several = len({row.load_value for row in rows}) > 1
    return ["per_step_s", "per_seq_s"] if several else ["per_step_s"]


def _fit(
    runs: _Runs, metric: str, names: list[str], start: HostTime
) -> tuple[HostTime, list[dict[str, Any]]]:
    """The parameters that bring a result nearest to what was measured, and its errors."""

    def host_of(values: Array) -> HostTime:
        return start.model_copy(
            update={
                name: float(f"{max(value, 1e-9):.4g}")
                for name, value in zip(names, values, strict=True)
            }
        )

    high = np.array([LARGEST_S[name] for name in names])
    first = np.clip([getattr(start, name) for name in names], 0.01 * high, 0.99 * high)
    before = runs.log_errors(start, metric)
    best = least_squares(
        lambda values: runs.log_errors(host_of(values), metric),
        first,
        bounds=(0.0, high),
        x_scale=first,
        diff_step=STEP,
        max_nfev=MOST_ROUNDS,
    )
    left_out = _left_out(best.fun, np.atleast_2d(best.jac))
    errors = [
        {
            "run": row.where,
            "result": metric,
            "before_pct": _pct(before[i]),
            "after_pct": _pct(best.fun[i]),
            "left_out_pct": None if np.isnan(left_out[i]) else _pct(left_out[i]),
        }
        for i, row in enumerate(runs.with_result(metric))
    ]
    return host_of(best.x), errors


def _left_out(residuals: Array, jacobian: Array) -> Array:
    """Each residual as it would be, to first order, with its run left out of the fit."""
    inverse = np.linalg.pinv(jacobian.T @ jacobian)
    leverage = np.einsum("ij,jk,ik->i", jacobian, inverse, jacobian)
    result: Array = np.full(len(residuals), np.nan)
    others = leverage < 1 - 1e-6
    result[others] = residuals[others] / (1 - leverage[others])
    return result


def _pct(log_ratio: float) -> float:
    return round(100 * float(np.expm1(log_ratio)), 2)
