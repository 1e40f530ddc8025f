"""How like two workloads are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.workload.content import output_tag, own_tag
from simulator.workload.requests import Floats, Requests
from simulator.workload.traces.statistics import dispersion, rank_correlation


class Likeness(NamedTuple):
    """One measure of both workloads; `distance` is Kolmogorov and Smirnov's where there is one."""

    measure: str
    trace: float | None
    twin: float | None
    distance: float | None = None


def likeness(trace: Requests, twin: Requests) -> list[Likeness]:
    """Measures of two workloads side by side."""
    both = trace, twin
    starts = [r.arrival_s[r.starts] for r in both]
    gaps = [np.diff(s) for s in starts]
    rows = [
        _row("rate (starts/s)", [(len(s) - 1) / s[-1] if s[-1] else None for s in starts]),
        _row("CV of the gaps", [cv(g) for g in gaps], ks_distance(*gaps)),
    ]
    spread = [dispersion(s) for s in starts]
    for width in spread[0]:
        if width in spread[1]:
            rows.append(_row(f"dispersion at {width} s", [d[width] for d in spread]))
    for what in ("prompt_tokens", "output_tokens"):
        tokens = [getattr(r, what) for r in both]
        name = what.replace("_tokens", "s")
        rows.append(_row(f"mean of the {name}", [t.mean() for t in tokens], ks_distance(*tokens)))
        rows.append(_row(f"p99 of the {name}", [np.quantile(t, 0.99) for t in tokens]))
    rows.append(
        _row("rank correlation", [rank_correlation(r.prompt_tokens, r.output_tokens) for r in both])
    )
    if any(len(r.segments) for r in both):
        rows.append(_row("prefix reuse", [prefix_reuse(r) for r in both]))
    if trace.has_sessions:
        rows.append(
            _row("turns per session", [len(r) / len(s) for r, s in zip(both, starts, strict=True)])
        )
        think = [r.think_s[r.next_request >= 0] for r in both]
        rows.append(_row("mean think time (s)", [t.mean() for t in think], ks_distance(*think)))
    return rows


def _row(measure: str, values: list[Any], distance: float | None = None) -> Likeness:
    first, second = (None if v is None else float(v) for v in values)
    return Likeness(measure, first, second, distance)


def cv(values: NDArray[Any]) -> float | None:
    """Coefficient of variation; None where it means nothing."""
    return float(values.std() / values.mean()) if len(values) > 1 and values.mean() > 0 else None


def ks_distance(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Greatest difference of the two distribution functions, 0 to 1."""
    points = np.concatenate((a, b))
    below = [np.searchsorted(np.sort(x), points, "right") / len(x) for x in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def prefix_reuse(requests: Requests) -> float:
    """Share of the prompt tokens that a prefix cache without limits or blocks would find.

    Requests are taken one after another, each with its output, in order of arrival.
    """
    longest: dict[tuple[int, int], int] = {}  # (chain, tag) -> tokens of the piece seen so far
    chains: dict[tuple[int, int, int], int] = {}
    offsets, segments = requests.segment_offsets.tolist(), requests.segments.tolist()
    reused = 0
    lengths = zip(requests.prompt_tokens.tolist(), requests.output_tokens.tolist(), strict=True)
    for row, (prompt, output) in enumerate(lengths):
        chain, left, known = -1, prompt, True
        pieces = segments[offsets[row] : offsets[row + 1]]
        for tag, length in [*pieces, (own_tag(row), prompt), (output_tag(row), output)]:
            length = length if tag == output_tag(row) else min(length, left)
            if length == 0:
                continue
            left -= length
            seen = longest.get((chain, tag), 0)
            if known and tag != output_tag(row):
                reused += min(length, seen)
            longest[chain, tag] = max(seen, length)
            known = known and (chain, tag, length) in chains
            chain = chains.setdefault((chain, tag, length), len(chains))
    return reused / int(requests.prompt_tokens.sum())


def gap_and_burst_distance(trace_s: Floats, twin_s: Floats) -> float:
    """One number for how unlike arrivals are: of their gaps, and of counts at every scale.

    Kolmogorov and Smirnov's distance hardly sees the few long silences between bursts, so
    the CV of the gaps, which they make, counts beside the dispersion at each scale.
    """
    gaps, other_gaps = np.diff(trace_s), np.diff(twin_s)
    spread, other = dispersion(trace_s), dispersion(twin_s)
    pairs = [(cv(gaps), cv(other_gaps)), *((spread[w], other.get(w)) for w in spread)]
    logs = [abs(np.log(b / a)) for a, b in pairs if a and b]
    return ks_distance(gaps, other_gaps) + (float(np.mean(logs)) if logs else 0.0)
