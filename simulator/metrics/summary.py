"""All figures of a run in one flat dictionary: the content of summary.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics.attribution import Attribution, attribute
from simulator.metrics.backlog import peak_concurrency
from simulator.metrics.cost import Part, cost_figures, parts_of, per_million, shares_of_classes
from simulator.metrics.engine import engine_figures
from simulator.metrics.fairness import jain_index, service_tokens, waits_ms
from simulator.metrics.latency import (
    Population,
    Rows,
    counts,
    e2el_s,
    normalised_s,
    population,
    queue_s,
    tpot_s,
    ttft_s,
)
from simulator.metrics.leases import replica_figures
from simulator.metrics.quantiles import describe_ms, describe_weighted_ms
from simulator.metrics.slo import good_requests, verdicts
from simulator.metrics.slo_causes import attribution_summary
from simulator.metrics.steps import peak_output_tokens_per_s
from simulator.recording import REJECT_REASONS, REJECTED, Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


def summarize(
    recording: Recording, resolved: Resolved, attribution: Attribution | None = None
) -> dict[str, Any]:
    """Sum up a run.

    Parameters
    ----------
    recording : what the run left behind.
    resolved : the scenario with every default filled, its model, GPU and step cost.
    attribution : of the same run, where it has been made already.

    Returns
    -------
    Keys of ``vllm bench serve --save-result`` where they exist, then this simulator's own,
    always in the same order.  Times are in ms where the key says so and seconds otherwise;
    a figure that does not exist (a percentile of nothing) is NaN.  `GLOSSARY` in
    `simulator.metrics.glossary` says what each key is.
    """
    scenario = resolved.scenario
    parts = attribute(recording, resolved) if attribution is None else attribution
    who = population(recording, scenario.cut_s)
    good = good_requests(scenario, recording, who.completed)
    ended = counts(recording, who.counted)
    replicas = parts_of(recording, resolved)
    tokens_in = int(recording.requests.prompt_tokens[who.completed].sum())
    tokens_out = int(recording.outcome.generated_tokens[who.completed].sum())
    cost = replica_figures(recording, resolved, who)
    cost |= cost_figures(replicas, resolved, who, tokens_in, tokens_out)
    classes = _classes(recording, resolved, who, good)
    for name, figures in _class_costs(recording, replicas, who, cost["cost"]).items():
        classes[name] |= figures
    return (
        _workload(recording, resolved, who)
        | {
            "completed": ended["completed"],
            "failed": ended["rejected"],
            "rejected": ended["rejected"],
            "rejected_by_reason": _rejections(recording, who.counted),
            "unfinished": ended["unfinished"],
            "duration": who.duration_s,
            "total_input_tokens": tokens_in,
            "total_output_tokens": tokens_out,
            "request_throughput": _rate(ended["completed"], who.duration_s),
            "request_goodput": None if good is None else _rate(int(good.sum()), who.duration_s),
            "goodput_share": None
            if good is None
            else _rate(int(good.sum()), int(who.counted.sum())),
            "output_throughput": _rate(tokens_out, who.duration_s),
            "max_output_tokens_per_s": peak_output_tokens_per_s(recording, who),
            "max_concurrent_requests": peak_concurrency(recording, who),
            "total_token_throughput": _rate(tokens_in + tokens_out, who.duration_s),
        }
        | latency_figures(recording, who.completed)
        | waits_ms(recording, who.counted)
        | describe_weighted_ms("itl", recording.gaps.gap_s, recording.gaps.count)
        | engine_figures(recording, resolved, who)
        | cost
        | {
            "attribution": attribution_summary(parts, scenario, recording, who.completed),
            "slo": [v.as_dict() for v in verdicts(scenario.slo, recording, who.completed)],
            "classes": classes,
            "jain_index": jain_index(np.array([c["service_tokens"] for c in classes.values()]))
            if len(classes) > 1
            else None,
            "num_steps": len(recording.steps.start_s),
            "simulated_s": recording.end_s,
            "seed": scenario.seed,
            "scenario_hash": scenario.hash(),
        }
    )


def latency_figures(recording: Recording, rows: Rows) -> dict[str, float]:
    """Statistics of TTFT, TPOT, E2EL, queue time and normalised latency over `rows`."""
    outcome = recording.outcome
    tpot = tpot_s(outcome)[rows]
    out = describe_ms("ttft", ttft_s(outcome)[rows])
    out |= describe_ms("tpot", tpot[~np.isnan(tpot)])
    out |= describe_ms("e2el", e2el_s(outcome)[rows])
    out |= describe_ms("queue", queue_s(outcome)[rows])
    return out | describe_ms("normalised_latency", normalised_s(outcome)[rows])


def _workload(recording: Recording, resolved: Resolved, who: Population) -> dict[str, Any]:
    workload = resolved.scenario.workload
    rate = getattr(workload.arrivals, "rate", None)
    concurrency = recording.requests.max_concurrency
    return {
        "name": resolved.scenario.name,
        "num_prompts": len(recording.requests),
        "request_rate": None if recording.requests.has_sessions else rate,
        "session_rate": rate if recording.requests.has_sessions else None,
        "max_concurrency": concurrency,
        "warmup_s": resolved.scenario.cut_s,
        "warmup_requests": who.warmup_requests,
    }


def _rejections(recording: Recording, rows: Rows) -> dict[str, int]:
    outcome = recording.outcome
    reasons = outcome.reject_reason[rows & (outcome.status == REJECTED)]
    found = np.bincount(reasons, minlength=len(REJECT_REASONS))
    return {name: int(n) for name, n in zip(REJECT_REASONS, found, strict=True) if n}


def _classes(
    recording: Recording, resolved: Resolved, who: Population, good: Rows | None
) -> dict[str, Any]:
    """Figures of each class, where the workload has more than one."""
    names = recording.requests.class_names
    specs = {spec.name: spec for spec in resolved.scenario.workload.classes}
    if len(names) < 2 and not specs:
        return {}
    service = service_tokens(recording, who)
    out: dict[str, Any] = {}
    for index, name in enumerate(names):
        members = recording.requests.class_id == index
        completed = who.completed & members
        counted = who.counted & members
        ended = counts(recording, counted)
        share = None if good is None else _rate(int((good & members).sum()), int(counted.sum()))
        figures: dict[str, Any] = ended | {"goodput_share": share}
        figures |= latency_figures(recording, completed)
        slo = verdicts(specs[name].slo, recording, completed, name) if name in specs else []
        figures |= waits_ms(recording, counted) | {"service_tokens": int(service[index])}
        out[name] = figures | {"slo": [v.as_dict() for v in slo]}
    return out


def _class_costs(
    recording: Recording, parts: list[Part], who: Population, dollars: float
) -> dict[str, dict[str, float]]:
    """Each class's share of the bill, where the workload has more than one."""
    names = recording.requests.class_names
    if len(names) < 2:
        return {}
    out = {}
    for index, share in enumerate(shares_of_classes(parts, who).tolist()):
        rows = who.completed & (recording.requests.class_id == index)
        tokens_in = int(recording.requests.prompt_tokens[rows].sum())
        tokens_out = int(recording.outcome.generated_tokens[rows].sum())
        own = share * dollars
        out[names[index]] = {"cost_share": share, "cost": own} | per_million(
            own, tokens_in, tokens_out
        )
    return out


def _rate(part: int, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")


def missed(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Verdicts of the objectives that were missed, over all requests and by class."""
    found = list(summary["slo"])
    for figures in summary["classes"].values():
        found += figures["slo"]
    return [verdict for verdict in found if not verdict["met"]]
