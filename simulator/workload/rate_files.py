"""Recorded rate curves: a table of t_s, rate_rps, as ServeGen's are published."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from simulator.errors import InputError
from simulator.workload.rates import RateCurve, steps


def read_rates(path: Path, series: str | None) -> RateCurve:
    """The curve of a CSV file with columns t_s and rate_rps, which repeats after its end.

    Parameters
    ----------
    series : value of the column ``model`` of the rows to take; None where the file has no
        such column, or one model.

    Raises
    ------
    InputError
        names the file, line and value.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: no rate curve can be read from it ({error})") from None
    if not rows or not {"t_s", "rate_rps"} <= set(rows[0]):
        raise InputError(f"{path}: a rate curve is a CSV file with columns t_s and rate_rps")
    models = list(dict.fromkeys(str(row.get("model", "")) for row in rows))
    if (series is None and len(models) > 1) or (series is not None and series not in models):
        asked = "has curves of several models" if series is None else f"has no model {series!r}"
        raise InputError(
            f"{path} {asked}; say which as workload.arrivals.series: {', '.join(models)}"
        )
    points = [
        (_number(path, line, row, "t_s"), _number(path, line, row, "rate_rps"))
        for line, row in enumerate(rows, 2)
        if series is None or row.get("model") == series
    ]
    time_s, rate = np.array(points).T
    if len(rate) < 2 or not np.allclose(np.diff(time_s), time_s[1] - time_s[0]):
        raise InputError(f"{path}: t_s must go up in equal steps, in two rows or more")
    if time_s[1] <= time_s[0] or not rate.sum() > 0:
        raise InputError(f"{path}: t_s must go up, and some rate_rps must be above 0")
    return steps(rate, float(time_s[1] - time_s[0]), repeats=True)


def _number(path: Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value < 1e12:
        raise InputError(
            f"{path}, line {line}: column {column}: {row[column]!r} is not a number from 0 to "
            "1e12; correct it"
        )
    return value
