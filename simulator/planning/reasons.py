"""Why variants differ, in sentences made from what was measured."""

from __future__ import annotations

import math
from typing import Any

from simulator.metrics.backlog import OVERLOADED
from simulator.metrics.limits import LIMITS
from simulator.report.block import readable_s

# Below these a figure explains nothing.
NOTABLE_SHARE = 0.02
NOTABLE_RATIO = 1.1
TIED = 0.01

Summaries = dict[str, dict[str, Any]]


def reasons(summaries: Summaries, same_requests: bool) -> list[str]:
    """Sentences on which variant wins, and on what each of the others loses by.

    Parameters
    ----------
    summaries : by name of the variant.
    same_requests : whether all were sent the same requests.
    """
    out = []
    if not same_requests:
        out.append(
            "The variants were sent different requests, so that the figures differ by their "
            "workload too."
        )
    out += _winners(summaries)
    for name, summary in summaries.items():
        others = {other: s for other, s in summaries.items() if other != name}
        out += [f"{name}: {sentence}" for sentence in _own(summary, others)]
    return out


def winner(summaries: Summaries) -> tuple[str, list[str]]:
    """Name of the best variant, and of all that it had to be chosen from.

    Most requests per second within the SLOs, where SLOs are set; of those within 1 % of
    the most, or of all where none are set, the lowest mean end-to-end latency.  A variant
    that is not overloaded beats one that is.
    """
    names = [name for name, s in summaries.items() if s["completed"]] or list(summaries)
    steady = [name for name in names if summaries[name]["state"] != OVERLOADED]
    tied = steady or names
    if _has_goodput(summaries):
        most = max(summaries[name]["request_goodput"] for name in tied)
        tied = [name for name in tied if summaries[name]["request_goodput"] >= most * (1 - TIED)]
    return min(tied, key=lambda name: summaries[name]["mean_e2el_ms"]), tied


def _has_goodput(summaries: Summaries) -> bool:
    return all(s["request_goodput"] is not None for s in summaries.values())


def _winners(summaries: Summaries) -> list[str]:
    best, tied = winner(summaries)
    out = []
    if _has_goodput(summaries):
        figures = ", ".join(
            f"{name} {s['request_goodput']:.2f}/s ({s['goodput_share']:.1%} of its requests)"
            for name, s in summaries.items()
        )
        verb = "serves" if len(tied) == 1 else "serve"
        out.append(f"{' and '.join(tied)} {verb} most within the SLOs: {figures}.")
    if len(tied) > 1:
        figures = ", ".join(f"{name} {ms(summaries[name]['mean_e2el_ms'])}" for name in tied)
        out.append(f"{best} has the lowest mean end-to-end latency: {figures}.")
    out += _strengths(best, summaries)
    for metric, title in (("ttft", "time to first token"), ("itl", "inter-token latency")):
        measured = {
            name: s[f"p99_{metric}_ms"]
            for name, s in summaries.items()
            if not math.isnan(s[f"p99_{metric}_ms"])
        }
        if len(measured) > 1:
            lowest = min(measured, key=measured.__getitem__)
            worst = max(measured, key=measured.__getitem__)
            if measured[worst] > NOTABLE_RATIO * measured[lowest]:
                out.append(
                    f"{lowest} has the lowest p99 {title}, {ms(measured[lowest])}; {worst} the "
                    f"highest, {ms(measured[worst])}."
                )
    return out


def _strengths(best: str, summaries: Summaries) -> list[str]:
    """What the winner does not lose and others do."""
    spared = []
    for key, what in (
        ("decode_stall_share", "of running requests' time without a token"),
        ("tail_bubble_share", "of slot-steps on finished rows"),
        ("padding_share", "of tokens as padding"),
    ):
        worse = [
            f"{name} {s[key]:.0%}"
            for name, s in summaries.items()
            if s[key] > summaries[best][key] + NOTABLE_SHARE
        ]
        if worse:
            spared.append(f"{summaries[best][key]:.0%} {what} ({', '.join(worse)})")
    return [f"{best} loses less: {'; '.join(spared)}."] if spared else []


def _own(summary: dict[str, Any], others: Summaries) -> list[str]:
    """What a variant loses by, and what limits it."""
    return [
        *_overload(summary),
        *_static(summary),
        *_stalls(summary, others),
        *_memory(summary),
        *_queue(summary),
        *_scaling(summary),
        *_limit(summary),
    ]


def _overload(summary: dict[str, Any]) -> list[str]:
    if summary["state"] != OVERLOADED:
        return []
    return [
        f"overloaded; its backlog grows by {summary['backlog_slope_per_s']:.2f} requests/s, so its "
        "latencies depend on the length of the run."
    ]


def _static(summary: dict[str, Any]) -> list[str]:
    bubble, padding = summary["tail_bubble_share"], summary["padding_share"]
    if not bubble > NOTABLE_SHARE and not padding > NOTABLE_SHARE:
        return []
    return [
        f"{bubble:.0%} of its slot-steps go to rows that are finished and wait for the longest of "
        f"their batch, and {padding:.0%} of the tokens it computes are padding."
    ]


def _stalls(summary: dict[str, Any], others: Summaries) -> list[str]:
    stalled = summary["decode_stall_share"]
    if stalled <= NOTABLE_SHARE:
        return []
    calm = [
        (s["p99_itl_ms"], name)
        for name, s in others.items()
        if s["decode_stall_share"] < stalled / 2 and not math.isnan(s["p99_itl_ms"])
    ]
    against = f" against {ms(min(calm)[0])} with {min(calm)[1]}" if calm else ""
    return [
        f"running requests get no token for {stalled:.0%} of their time, while the prompts of "
        f"others are computed; p99 inter-token latency is {ms(summary['p99_itl_ms'])}{against}, "
        f"where the median is {ms(summary['median_itl_ms'])}."
    ]


def _memory(summary: dict[str, Any]) -> list[str]:
    out = []
    if summary["preemptions"]:
        out.append(
            f"runs out of KV blocks: {summary['preemptions']} preemptions, "
            f"{summary['recomputed_tokens']} tokens computed again."
        )
    if summary["kv_reserved_unused"] > NOTABLE_SHARE:
        out.append(
            f"{summary['kv_reserved_unused']:.0%} of the KV memory it holds is reserved for tokens "
            "that have not come."
        )
    return out


def _queue(summary: dict[str, Any]) -> list[str]:
    share = summary["mean_queue_ms"] / summary["mean_e2el_ms"]
    if not share > 0.1:
        return []
    return [
        f"requests wait {ms(summary['mean_queue_ms'])} before their first step, {share:.0%} of "
        "their end-to-end latency."
    ]


def _scaling(summary: dict[str, Any]) -> list[str]:
    """What an autoscaler spares, and what its cold starts cost."""
    if summary["replica_start_s"] is None:
        return []
    cold = summary["attribution"]["ttft"].get("cold_start", 0.0)
    return [
        f"{summary['mean_replicas']:.1f} replicas on average, {summary['peak_replicas']} at most, "
        f"cost ${summary['cost']:.2f}; {cold:.0%} of the time to first token goes to waits while "
        f"one starts, which takes {readable_s(summary['replica_start_s'])}."
    ]


def _limit(summary: dict[str, Any]) -> list[str]:
    named = [
        f"{LIMITS[limit['resource']]} {limit['share']:.0%}"
        for limit in summary["limits"][:3]
        if limit["share"] > NOTABLE_SHARE
    ]
    if not named:
        return []
    return [
        f"limits, by share of time: {', '.join(named)}; mean batch "
        f"{summary['mean_batch_size']:.1f}."
    ]


def ms(value: float) -> str:
    """A time given in milliseconds, in the unit that fits."""
    return readable_s(value / 1e3)
