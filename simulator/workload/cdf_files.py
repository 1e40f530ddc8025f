"""Distribution functions of lengths, as fleet planners share them: [[tokens, share], ...]."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import LARGEST_COUNT, Floats


def read_cdf(path: Path) -> tuple[Floats, Floats]:
    """Points of the quantile function: shares from 0 to 1, and tokens.

    Between two points lengths are spread evenly; those up to the first one from 1 token on.

    Raises
    ------
    InputError
        names the file, the point and what is allowed.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        points = np.array(stored["cdf"] if isinstance(stored, dict) else stored, np.float64)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: no distribution function can be read from it ({type(error).__name__}: "
            f"{error}); it is written as [[tokens, share of requests up to them], ...]"
        ) from None
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise InputError(f"{path}: is not a list of pairs [tokens, share of requests up to them]")
    tokens, share = points.T
    for k in range(len(points)):
        before = (0.0, 0.0) if k == 0 else (tokens[k - 1], share[k - 1])
        if not (before[0] < tokens[k] <= LARGEST_COUNT and before[1] <= share[k] <= 1 + 1e-6):
            raise InputError(
                f"{path}, point {k + 1}: [{tokens[k]:g}, {share[k]:g}] does not follow "
                f"[{before[0]:g}, {before[1]:g}]; tokens go up from 1, and shares from 0 to 1"
            )
    if abs(share[-1] - 1) > 1e-6:
        raise InputError(f"{path}: ends at a share of {share[-1]:g}; it must reach 1")
    return np.append(0.0, share / share[-1]), np.append(1.0, tokens)
