"""What a trace looks like: rate, burstiness, lengths, and what is odd about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.blocks import reused_tokens
from simulator.workload.traces.trace import Trace

WINDOWS_S = (1.0, 10.0, 60.0, 600.0)
LEAST_WINDOWS = 20  # fewer say nothing about a variance
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
PILE = 0.01  # share of requests at the greatest length that is worth a word


def describe(trace: Trace) -> dict[str, Any]:
    """Measures of a trace, ready for JSON.

    Returns
    -------
    dict with
        ``requests``, ``rows_read``; ``span_s`` from the first to the last arrival;
        ``rate`` in requests/s, gaps per span; these and the next two are about the first
        turns where there are ``sessions``, None without; ``gap_cv``, coefficient of variation of
        the gaps (Poisson: 1), None for less than three requests;
        ``index_of_dispersion``, variance / mean of the counts in windows of so many
        seconds (Poisson: 1 at every width), as far as the span has 20 windows;
        ``prompt_tokens`` and ``output_tokens``, each with mean, min, max and quantiles;
        ``length_correlation``, Spearman's between the two; ``prefix_reuse``, share of the
        prompt tokens that an earlier prompt began with too, None without block ids;
        ``skipped`` rows by reason;
        ``notes`` of the reader and ``oddities``, sentences.
    """
    n = len(trace)
    start_s = trace.arrival_s[trace.starts]
    starts = len(start_s)
    span_s = float(start_s[-1])
    gaps = np.diff(start_s)
    return {
        "path": trace.path,
        "format": trace.format,
        "rows_read": trace.rows_read,
        "requests": n,
        "span_s": span_s,
        "rate": (starts - 1) / span_s if span_s else None,
        "gap_cv": float(gaps.std() / gaps.mean()) if starts > 2 and span_s else None,
        "index_of_dispersion": dispersion(start_s),
        "prompt_tokens": _lengths(trace.prompt_tokens),
        "output_tokens": _lengths(trace.output_tokens),
        "length_correlation": rank_correlation(trace.prompt_tokens, trace.output_tokens),
        "sessions": _sessions(trace),
        "prefix_reuse": _prefix_reuse(trace),
        "skipped": {reason: skipped.count for reason, skipped in trace.skipped.items()},
        "notes": list(trace.notes),
        "oddities": _oddities(trace),
    }


def dispersion(arrival_s: Floats, widths_s: Sequence[float] = WINDOWS_S) -> dict[str, float]:
    """Variance / mean of the counts in windows, by their width in s; Poisson: 1 at all."""
    found = {}
    for width in widths_s:
        windows = int(arrival_s[-1] / width)  # whole ones
        if windows >= LEAST_WINDOWS:
            inside = arrival_s[arrival_s < windows * width]
            counts = np.bincount((inside / width).astype(np.int64), minlength=windows)
            found[f"{width:g}"] = float(counts.var() / counts.mean())
    return found


def _sessions(trace: Trace) -> dict[str, float | None] | None:
    """Turns and think times of sessions; None where there are none."""
    if "turn" not in trace.extra:
        return None
    turns = np.diff(trace.starts, append=len(trace))
    think_s = trace.extra["think_s"][trace.extra["turn"] > 0]
    some = len(think_s) > 0
    return {
        "count": len(turns),
        "mean_turns": float(turns.mean()),
        "max_turns": int(turns.max()),
        "mean_think_s": float(think_s.mean()) if some else None,
        "median_think_s": float(np.median(think_s)) if some else None,
    }


def _prefix_reuse(trace: Trace) -> float | None:
    if "blocks" not in trace.extra:
        return None
    return reused_tokens(trace) / int(trace.prompt_tokens.sum())


def _lengths(tokens: Ints) -> dict[str, float]:
    return {
        "mean": float(tokens.mean()),
        "min": int(tokens.min()),
        **{f"p{100 * q:g}": float(np.quantile(tokens, q)) for q in QUANTILES},
        "max": int(tokens.max()),
    }


def rank_correlation(a: Ints, b: Ints) -> float | None:
    """Spearman's; None where all of one are equal."""
    if a.min() == a.max() or b.min() == b.max():
        return None
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: Ints) -> Floats:
    """Ranks, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[place]


def _oddities(trace: Trace) -> list[str]:
    found = []
    n = len(trace)
    moments = np.unique(trace.arrival_s)
    if len(moments) < 0.9 * n and "turn" not in trace.extra:
        found.append(
            f"{n:,} requests arrive at only {len(moments):,} different moments"
            + (f", {np.diff(moments).min():g} s apart or more" if len(moments) > 1 else "")
            + ": the recording is coarse, and bursts within a moment are not real"
        )
    for what, tokens in (("prompts", trace.prompt_tokens), ("outputs", trace.output_tokens)):
        longest = int(tokens.max())
        share = np.count_nonzero(tokens >= 0.999 * longest) / n
        if n > 1 / PILE and PILE <= share < 1:
            found.append(
                f"{100 * share:.1f} % of the {what} have about the greatest length, {longest:,} "
                "tokens: longer ones were probably cut there"
            )
    # Only rows with the same arrival as a neighbour can repeat one.
    same = np.diff(trace.arrival_s) == 0
    near = np.flatnonzero(np.append(same, False) | np.append(False, same))
    columns = (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
    rows = np.stack([column[near] for column in columns])
    twins = len(near) - np.unique(rows, axis=1).shape[1]
    if twins:
        found.append(f"{twins:,} rows repeat another one in arrival and both lengths")
    return found
