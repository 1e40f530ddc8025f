"""Replicates of a recorded trace: the same service on another, similar, day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.errors import InputError

if TYPE_CHECKING:
    from simulator.workload.traces.trace import Trace

BLOCKS = 30


def resample(trace: Trace, random: np.random.Generator) -> tuple[Trace, str]:
    """Moving-block bootstrap of a trace's rows, each with the gap before it.

    As many requests as recorded are put together from stretches of consecutive rows
    that start anywhere.  A stretch is a thirtieth of the trace, two minutes of an hour,
    so that bursts up to that length stay whole; slower changes of the rate are mixed.
    Sessions are drawn as a whole.  The first request keeps no gap before it, as in the recording.

    Source: H. R. Künsch, "The jackknife and the bootstrap for general stationary
    observations", Annals of Statistics 17 (1989) 1217-1241.

    Returns
    -------
    The replicate, and what to say about it.
    """
    n = len(trace.starts)
    what = "sessions" if "turn" in trace.extra else "requests"
    if n < 2 * BLOCKS:
        raise InputError(
            f"{trace.path}: {n} {what} are too few to draw replicates from; "
            f"use {2 * BLOCKS} or more, or one replicate only"
        )
    length = -(-n // BLOCKS)
    starts = random.integers(1, n - length, BLOCKS, endpoint=True)
    rows = (starts[:, None] + np.arange(length)).ravel()[:n]
    gaps = np.diff(trace.arrival_s[trace.starts], prepend=0.0)[rows]
    gaps[0] = trace.arrival_s[0]
    return (
        trace.take_sessions(rows, np.cumsum(gaps)),
        f"drawn from the recording in blocks of {length:,} consecutive {what} with their gaps",
    )
