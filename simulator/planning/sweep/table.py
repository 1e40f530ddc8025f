"""The table of a sweep: one row per point and replicate, ``results.parquet`` and ``.csv``.

Its columns, in this order; they are the interface of everything that plots a sweep:

====================================  ======================================================
column                                what it is
====================================  ======================================================
``point``                             number of the point, from 0, in the order of the grid
``replicate``                         number of the random sample, from 0
one per swept key                     named as the key is (``scheduler.max_num_seqs``): int64,
                                      float64 or bool where all values are, else text as in
                                      a scenario's file
``status``                            ``ok``, or ``failed``: then all figures are missing
``error``                             why it failed, a sentence; missing where it did not
every number, and ``state``           of summary.json, by its key
``limiting_resource``                 the first of ``limits``, and its share of time
``limiting_share``
``slo_met``                           whether every objective, of every class, was met;
                                      missing where there is none
``slo.KEY``, ``slo.CLASS.KEY``        what was measured for an objective, ms
``output_tokens_per_s_per_gpu``       output_throughput / GPUs that are paid for, on average
``output_tokens_per_s_per_user``      1000 / median_tpot_ms: how fast one answer is written
``pareto``                            whether the point is efficient: no other is at least as
                                      good in both of the columns above and better in one, by
                                      the means over replicates; points with an overloaded
                                      replicate are not
``scenario_hash``                     of summary.json; the same for all replicates of a point
====================================  ======================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.backlog import OVERLOADED
from simulator.planning.sweep.points import Point
from simulator.planning.sweep.store import Outcome
from simulator.report.files import write_atomically
from simulator.scenario.overrides import in_line

if TYPE_CHECKING:
    import pandas as pd

PER_GPU, PER_USER = "output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user"
LAST = ("limiting_resource", "limiting_share", "slo_met")
NOT_FIGURES = ("name", "scenario_hash")


def table(points: Sequence[Point], rows: Iterable[tuple[int, int, Outcome]]) -> pd.DataFrame:
    """The table.

    Parameters
    ----------
    points : all of the sweep, in the order of their numbers.
    rows : number of the point, replicate and what became of it, in order.
    """
    import pandas as pd

    cells = {key: _cells([point.values[key] for point in points]) for key in points[0].values}
    made = [
        {"point": number, "replicate": replicate}
        | {key: column[number] for key, column in cells.items()}
        | _figures(outcome)
        for number, replicate, outcome in rows
    ]
    frame = pd.DataFrame(made, columns=_columns(points, made))
    frame["pareto"] = frame["point"].isin(_efficient_points(frame))
    frame["scenario_hash"] = frame.pop("scenario_hash")
    return frame


def _columns(points: Sequence[Point], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the columns, each where its kind belongs, whichever row has it first."""
    first = ["point", "replicate", *points[0].values, "status", "error"]
    last = [*LAST, *dict.fromkeys(k for row in rows for k in row if k.startswith("slo."))]
    last += [PER_GPU, PER_USER, "scenario_hash"]
    figures = dict.fromkeys(key for row in rows for key in row) | {"state": None}
    return [*first, *(key for key in figures if key not in first and key not in last), *last]


def _cells(values: Sequence[Any]) -> list[Any]:
    """Swept values of one key as a column can hold them: all numbers, all bool, or text."""
    numbers = all(isinstance(value, int | float) for value in values)
    if numbers and len({isinstance(value, bool) for value in values}) == 1:
        return list(values)
    return [value if isinstance(value, str) else in_line(value) for value in values]


def _figures(outcome: Outcome) -> dict[str, Any]:
    """What one row has beside its point."""
    if "error" in outcome:
        return {"status": "failed", "error": outcome["error"]}
    summary = outcome["summary"]
    row = {"status": "ok", "error": None, "scenario_hash": summary["scenario_hash"]}
    row |= {
        key: value
        for key, value in summary.items()
        if not isinstance(value, dict | list) and key not in NOT_FIGURES
    }
    verdicts = [*summary["slo"], *(v for c in summary["classes"].values() for v in c["slo"])]
    row["slo_met"] = all(verdict["met"] for verdict in verdicts) if verdicts else None
    for verdict in verdicts:
        who = f"{verdict['class_name']}." if verdict["class_name"] else ""
        row[f"slo.{who}{verdict['metric']}"] = verdict["value_ms"]
    if summary["limits"]:
        row["limiting_resource"] = summary["limits"][0]["resource"]
        row["limiting_share"] = summary["limits"][0]["share"]
    row[PER_GPU] = summary["output_throughput"] / summary["mean_gpus"]
    tpot_ms = summary["median_tpot_ms"]
    row[PER_USER] = 1e3 / tpot_ms if tpot_ms else None
    return row


def _efficient_points(frame: pd.DataFrame) -> list[int]:
    """Numbers of the points that no other beats in both throughputs."""
    overloaded = frame.loc[frame["state"] == OVERLOADED, "point"]
    steady = frame[(frame["status"] == "ok") & ~frame["point"].isin(overloaded)]
    means = steady.groupby("point")[[PER_GPU, PER_USER]].mean().astype(float).dropna()
    found = efficient(means.to_numpy())
    return [int(number) for number in means.index[found]]


def efficient(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that no other row is at least as good as in both columns, and better in one.

    Parameters
    ----------
    values : (n, 2), more is better.
    """
    order = np.lexsort((-values[:, 1], -values[:, 0]))
    out = np.zeros(len(values), bool)
    highest, leader = -np.inf, -1
    for row in order:
        if values[row, 1] > highest:
            highest, leader = values[row, 1], row
            out[row] = True
        elif leader >= 0 and (values[row] == values[leader]).all():
            out[row] = True
    return out


def write_table(frame: pd.DataFrame, folder: Path) -> None:
    """``results.parquet`` and ``results.csv``."""
    write_atomically(folder / "results.parquet", lambda path: frame.to_parquet(path, index=False))
    write_atomically(
        folder / "results.csv",
        lambda path: frame.to_csv(path, index=False, lineterminator="\n", encoding="utf-8"),
    )
