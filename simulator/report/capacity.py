"""An answer about capacity as text: the answer first, then what it rests on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from simulator.metrics.attribution import TITLES
from simulator.metrics.limits import LIMITS
from simulator.planning.capacity.search import RUNNERS_UP
from simulator.report.block import header, line, wrapped
from simulator.report.text import verdict_line
from simulator.words import counted

if TYPE_CHECKING:
    from simulator.planning.capacity import Capacity


SETTINGS_WIDTH = 48  # of a search's table, at least


def capacity_report(found: Capacity) -> str:
    """The whole report."""
    summary = found.summary
    lines = [*wrapped(answer_sentence(found)), ""]
    lines += [header("Capacity"), *_figures(found)]
    lines += [header(f"At {found.load:.4g} {found.unit}"), *map(verdict_line, _verdicts(summary))]
    lines.append(line("State:", summary["state"]))
    for limit in summary["limits"][:3]:
        lines.append(line(f"Limit, {LIMITS[limit['resource']]} (%):", limit["share"] * 100))
    lines += _options(found) + _changes(found) + _what_if(found)
    lines += [header("Where the numbers come from")]
    for text in found.resolved.cost.provenance.splitlines():
        lines += wrapped(text, bullet="- ")
    if found.model_band is not None:
        lines += wrapped(
            f"model band: step costs {1 + found.model_band.error:.3g} times as high, or low; "
            + found.model_band.basis,
            bullet="- ",
        )
    for note in [*found.notes, f"{found.runs} runs in all"]:
        lines += wrapped(note, bullet="- ")
    return "\n".join(lines)


def answer_sentence(found: Capacity) -> str:
    """The answer in one breath."""
    if found.per_replica.estimate == 0:
        margin = found.binding
        return (
            f"No load meets {margin.objective} <= {margin.limit_ms:g}: even nearly idle it is "
            f"{margin.value_ms:.4g}."
        )
    limits = ", ".join(_limits_in_words(found))
    band = found.model_band
    if found.sized:
        count = int(found.replicas.estimate)
        machines = _machines(found, count)
        bands = f"sampling CI {found.replicas.low:.0f}–{found.replicas.high:.0f}"
        if band is not None:
            bands += f", model band {_count(band.low)}–{_count(band.high)}"
        if found.gpus > count:
            bands += " replicas"
        meet = _verb(found.gpus, "meet")
        start = f"At {found.asked:.4g} {found.unit}, {machines} {meet} {limits} ({bands})"
        room = f"headroom {found.headroom:.0%}"
    else:
        low, high = found.per_replica.low, found.per_replica.high
        bands = f"sampling CI {low:.3g}–{high:.3g}"
        if band is not None:
            bands += f", model band {band.low:.3g}–{band.high:.3g}"
        carry = _verb(found.gpus, "carry")
        per = "" if found.replicas.estimate == 1 else " per replica"
        machines = _machines(found, found.gpus)
        start = (
            f"{machines} {carry} {found.whole:.3g} {found.unit} within {limits} "
            f"({per.strip() + ': ' if per else ''}{bands})"
        )
        asked = f"{found.asked:.4g} {found.unit}"
        room = f"headroom over {asked} {found.headroom:.0%}"
        if found.headroom < 0:
            room = f"that is {-found.headroom:.0%} short of {asked}"
    parts = [start, f"{found.binding.objective} gives way first{_cause(found)}"]
    resource = _resource(found.summary)
    if resource:
        parts.append(f"{resource} limits")
    parts.append(room)
    if found.next_change is not None:
        change = found.next_change
        parts.append(f"cheapest next change: {change.change.name} ({change.gain:+.0%})")
    parts.append(
        f"${found.dollars_per_hour:.2f}/h, "
        f"${found.summary['cost_per_million_output_tokens']:.2f}/M output tokens"
    )
    if band is not None:
        parts.append(f"step costs ±{band.error:.0%}")
    return "; ".join(parts) + "."


def _verb(count: int, plural: str) -> str:
    """``meet`` or ``carry``, as so many do it."""
    if count != 1:
        return plural
    return plural.removesuffix("y") + "ies" if plural.endswith("y") else plural + "s"


def _cause(found: Capacity) -> str:
    """What the requests at the binding objective spend most of their time on."""
    for cause in found.summary["attribution"]["slo"]:
        who = f"{cause['class_name']}: " if cause["class_name"] else ""
        if who + cause["metric"] == found.binding.objective and cause["shares"]:
            name, share = next(iter(cause["shares"].items()))
            return f", mostly by {TITLES[name].lower()} ({share:.0%})"
    return ""


def _count(replicas: float) -> str:
    return "∞" if math.isinf(replicas) else f"{replicas:.0f}"


def _limits_in_words(found: Capacity) -> list[str]:
    words = []
    for verdict in _verdicts(found.summary):
        statistic, _, metric = verdict["metric"].removesuffix("_ms").partition("_")
        who = f"{verdict['class_name']}'s " if verdict["class_name"] else ""
        words.append(f"{who}{statistic} {metric.upper()} {verdict['limit_ms']:g} ms")
    return words


def _verdicts(summary: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(summary["slo"])
    for figures in summary["classes"].values():
        found += figures["slo"]
    return found


def _resource(summary: dict[str, Any]) -> str | None:
    """What holds the work back most, in a few words."""
    for limit in summary["limits"]:
        if limit["resource"] != "arrivals":
            return LIMITS[limit["resource"]]
    return None


def _machines(found: Capacity, count: int) -> str:
    """The GPUs, and how they are divided where there are more of them than replicas."""
    gpus = " and ".join(sorted({pool.gpu.name for pool in found.resolved.pools.values()}))
    pools = found.resolved.scenario.cluster.pools
    if pools is not None:
        p, d = pools.prefill.replicas, pools.decode.replicas
        return f"{found.gpus} {gpus} ({p} prefill and {counted(d, 'decode replica')})"
    divided = f" ({counted(count, 'replica')} of {found.gpus // count})"
    return f"{found.gpus} {found.gpu}" + (divided if found.gpus > count else "")


def _figures(found: Capacity) -> list[str]:
    alone = ", alone" if found.sized else ""
    lines = [
        line(f"Greatest load per replica{alone} ({found.unit}):", found.per_replica.estimate),
        f"{'95 % CI over replicates:':<40} {found.per_replica.low:.2f} – "
        f"{found.per_replica.high:.2f}",
    ]
    if found.sized:
        lines += [
            line("Replicas needed:", int(found.replicas.estimate)),
            f"{'95 % CI over replicates:':<40} {found.replicas.low:.0f} – "
            f"{found.replicas.high:.0f}",
        ]
    if found.model_band is not None:
        band, form = found.model_band, "{:.0f}" if found.sized else "{:.2f}"
        what = "Replicas" if found.sized else "Load"
        lines.append(
            f"{what + ' if step costs are off:':<40} "
            f"{form.format(band.low)} – {form.format(band.high)}"
        )
    lines += [
        line("Greatest load of all replicas:", found.whole),
        line("Headroom (%):", found.headroom * 100),
        line("GPUs:", found.gpus),
        line("Price ($/h):", found.dollars_per_hour),
    ]
    if found.whole > 0:  # else nearly idle GPUs would be shared by next to no tokens
        lines += [
            line("Cost ($/M output tokens):", found.summary["cost_per_million_output_tokens"]),
            line("Cost ($/M total tokens):", found.summary["cost_per_million_total_tokens"]),
        ]
    return lines


def _options(found: Capacity) -> list[str]:
    """The cheapest of a search, and what was out."""
    if not found.options:
        return []
    ranked = [option for option in found.options if not option.why_not]
    width = max(SETTINGS_WIDTH, *(len(", ".join(option.settings)) for option in ranked))
    out = [
        header("Search"),
        f"{'':<{width}}{'per replica':>12}{'replicas':>9}{'GPUs':>6}{'$/h':>9}",
    ]
    for option in ranked[: 1 + RUNNERS_UP]:
        out.append(
            f"{', '.join(option.settings):<{width}}{option.load:>12.2f}{option.replicas:>9}"
            f"{option.gpus:>6}{option.dollars_per_hour:>9.2f}"
        )
    for option in found.options[len(ranked) :]:
        out += wrapped(f"{', '.join(option.settings)}: {option.why_not}", bullet="✗ ")
    return out


def _changes(found: Capacity) -> list[str]:
    if not found.tried:
        return []
    out = [header("Changes that carry more")]
    for tried in found.tried:
        price = f", {tried.dollars_per_hour:+.2f} $/h" if tried.dollars_per_hour else ""
        out.append(f"{tried.change.name + ':':<40} {tried.gain:+.0%}{price}")
    if found.tried[0].change.kind == "numerics":
        out += wrapped("They change the model's numerics: check the answers' quality.", "! ")
    return out


def _what_if(found: Capacity) -> list[str]:
    if not found.what_if:
        return []
    out = [header("What if")]
    for one in found.what_if:
        mark = "-" if "met" not in one else "✓" if one["met"] else "✗"
        out += wrapped(f"{one['name']}: {one['verdict']}", bullet=f"{mark} ")
    return out
