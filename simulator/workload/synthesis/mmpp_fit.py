"""Burst episodes that vary counts as much as recorded ones, at every scale.

For a Poisson process whose rate jumps between two values, dL apart, and forgets its state
within tau, the variance of the counts in windows of t over their mean is

    1 + A (1 - (tau / t) (1 - exp(-t / tau))),   A = 2 p (1 - p) dL^2 tau / rate,

p being the share of the time in bursts (H. Heffes and D. M. Lucantoni, "A Markov modulated
characterization of packetized voice and data traffic", IEEE JSAC 4 (1986) 856-868).  So A and
tau are told by the counts; p is tried out, and so are gaps within a state that vary more than
Poisson's, which adds a little to the counts of short windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from simulator.workload.requests import Floats
from simulator.workload.traces.statistics import dispersion

SHARES = (0.02, 0.05, 0.1, 0.2, 0.4)
CVS = (1.0, 2.0)
WIDTHS, LEAST_WINDOWS = 16, 20
LEAST_EXCESS = 0.3  # less is a Poisson process to all purposes


def mmpp_candidates(start_s: Floats) -> Iterator[dict[str, Any]]:
    """Processes of the scenario with the recorded rate and variance of counts."""
    span_s = float(start_s[-1])
    rate = (len(start_s) - 1) / span_s
    widths = np.geomspace(1 / rate, max(span_s / LEAST_WINDOWS, 2 / rate), WIDTHS)
    found = dispersion(start_s, widths.tolist())
    width = np.array([float(w) for w in found])
    excess, tau = _excess(width, np.array(list(found.values())))
    if excess < LEAST_EXCESS:
        return
    for share in SHARES:
        apart = np.sqrt(excess * rate / (2 * share * (1 - share) * tau))
        factor = 1 + (1 - share) * min(float(apart), rate / share) / rate
        episodes = {
            "process": "mmpp",
            "rate": float(f"{rate:.6g}"),
            "burst_factor": float(f"{min(factor, 1 / share):.6g}"),
            "burst_share": share,
            "burst_s": float(f"{tau / (1 - share):.6g}"),
        }
        yield from (episodes | {"cv": own} for own in CVS)


def _excess(width: Floats, found: Floats) -> tuple[float, float]:
    """A and tau of the curve nearest to the variances found, by relative squares."""
    if not len(width):
        return 0.0, 1.0
    best = (np.inf, 0.0, 1.0)
    for tau in np.geomspace(width[0] / 4, width[-1] * 2, 60).tolist():
        grown = 1 - tau / width * -np.expm1(-width / tau)
        weight = 1 / found**2
        excess = float((weight * grown * (found - 1)).sum() / (weight * grown * grown).sum())
        error = float((weight * (1 + excess * grown - found) ** 2).sum())
        best = min(best, (error, excess, tau))
    return best[1], best[2]
