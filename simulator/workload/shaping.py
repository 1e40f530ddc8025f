"""Other arrivals from a recording: fewer, more, spread within its bins, or at other times.

Sessions are kept, copied and moved as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from simulator.workload.arrivals import arrival_times
from simulator.workload.streams import Purpose, Streams
from simulator.workload.traces.sessions import salted
from simulator.workload.traces.trace import Trace

if TYPE_CHECKING:
    from pathlib import Path

    from simulator.scenario.workload import WorkloadSpec


def shaped(
    trace: Trace, spec: WorkloadSpec, streams: Streams, base_dir: Path
) -> tuple[Trace, list[str]]:
    """The trace as `spec` asks for it, and sentences on what was done."""
    how = spec.trace
    assert how is not None
    notes = []
    what = "sessions" if "turn" in trace.extra else "requests"
    if how.keep_share is not None:
        whole = len(trace.starts)
        trace = thin(trace, how.keep_share, streams.generator(Purpose.THINNING))
        notes.append(f"trace: {len(trace.starts):,} of {whole:,} {what} are kept at random")
    if how.copies > 1:
        trace = superimpose(trace, how.copies, streams.generator(Purpose.COPIES))
        notes.append(
            f"trace: {how.copies} copies, each shifted in time by chance and with prompts of its "
            "own, arrive together"
        )
    if how.jitter_s > 0:
        trace = jitter(trace, how.jitter_s, streams.generator(Purpose.JITTER))
        notes.append(f"trace: arrivals are spread over the {how.jitter_s:g} s after their own")
    if spec.arrivals is not None:
        starts = trace.starts
        start_s = arrival_times(
            spec.arrivals,
            streams.generator(Purpose.ARRIVALS),
            num_requests=len(starts),
            duration_s=None,
            episode_random=streams.generator(Purpose.EPISODES),
            base_dir=base_dir,
        )
        trace = trace.take_sessions(np.arange(len(start_s)), start_s)
        notes.append(f"trace: its {what} arrive by workload.arrivals, in the recorded order")
    return trace, notes


def thin(trace: Trace, share: float, random: np.random.Generator) -> Trace:
    """Each start with probability `share`; a larger share keeps all that a smaller one does."""
    starts = trace.starts
    chosen = np.flatnonzero(random.random(len(starts)) < share)
    return trace.take_sessions(chosen, trace.arrival_s[starts[chosen]])


def superimpose(trace: Trace, copies: int, random: np.random.Generator) -> Trace:
    """`copies` recordings at once, all but the first begun at a random moment.

    What a shift moves beyond the end comes back at the start: the period is the span and
    one mean gap.  Prompts of different copies share nothing.
    """
    start_s = trace.arrival_s[trace.starts]
    n = len(start_s)
    period_s = float(start_s[-1]) * (n / (n - 1) if n > 1 else 1.0)
    shift_s = np.append(0.0, random.random(copies - 1)) * period_s
    moments = start_s + shift_s[:, None]
    moments = np.where(moments >= period_s, moments - period_s, moments) if n > 1 else moments
    order = np.argsort(moments, axis=None, kind="stable")
    joined = trace.take_sessions(order % n, moments.ravel()[order])
    if "blocks" not in joined.extra:
        return joined
    copy = np.repeat(order // n, np.diff(joined.starts, append=len(joined)))
    return replace(joined, extra=joined.extra | {"blocks": salted(joined.extra["blocks"], copy)})


def jitter(trace: Trace, width_s: float, random: np.random.Generator) -> Trace:
    """Arrivals spread evenly over the bin of `width_s` that their recorded time stands for."""
    starts = trace.starts
    moments = trace.arrival_s[starts] + width_s * random.random(len(starts))
    order = np.argsort(moments, kind="stable")
    return trace.take_sessions(order, moments[order])
