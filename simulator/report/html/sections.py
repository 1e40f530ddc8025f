"""The tables, verdicts and headline figures of report.html, from the summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from simulator.metrics.backlog import STABLE
from simulator.metrics.limits import LIMITS
from simulator.report.benchmark import SECTIONS
from simulator.report.block import readable_s
from simulator.report.cost import CLASS_COSTS, class_costs, energy, money
from simulator.report.text import STATE_MEANS

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def number(value: Any) -> str:
    """A figure as the page prints it: digits in groups, two decimals unless it is whole."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a caption; the first cell of each row is its header.

    head : names of the columns, the first empty; none leaves the line out.
    """
    columns = "".join(
        f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in head
    )
    body = "\n".join(
        f'<tr><th scope="row">{escape(str(first))}</th>'
        + "".join(f"<td>{escape(number(value))}</td>" for value in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        + (f"<thead><tr>{columns}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table></div>"
    )


def pairs(caption: str, rows: Iterable[Sequence[Any]]) -> str:
    """A table of names and values."""
    return table(caption, (), rows)


def state(summary: dict[str, Any]) -> str:
    """How the system keeps up, in a word."""
    kind = "good" if summary["state"] == STABLE else "bad"
    return f'<p class="state {kind}">{escape(summary["state"])}</p>'


def cards(summary: dict[str, Any]) -> str:
    """The figures that a reader looks for first."""
    shown = [
        ("Requests", number(summary["request_throughput"]), "per second"),
        ("Output", f"{summary['output_throughput']:,.0f}", "tokens per second"),
        *((f"{name}, p99", _time(summary[f"p99_{key}_ms"]), "")
          for key, name in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2el", "E2EL"))),
        ("Cost", f"${number(summary['cost_per_million_output_tokens'])}", "per M output tokens"),
    ]  # fmt: skip
    return '<dl class="cards">' + "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)} <small>{escape(unit)}</small></dd></div>"
        for name, value, unit in shown
    ) + "</dl>"  # fmt: skip


def _time(ms: float) -> str:
    return "n/a" if math.isnan(ms) else readable_s(ms / 1e3)


def warnings(summary: dict[str, Any]) -> str:
    """What the reader must know before the figures."""
    sentences = []
    if summary["state"] in STATE_MEANS:
        sentences.append(STATE_MEANS[summary["state"]].replace("above", "below"))
    left_out = summary["rejected"] + summary["unfinished"]
    if left_out:
        reasons = ", ".join(
            f"{reason.replace('_', ' ')}: {count}"
            for reason, count in summary["rejected_by_reason"].items()
        )
        sentences.append(
            f"{left_out} of {summary['num_prompts']} requests did not complete and are in no "
            f"percentile ({summary['unfinished']} unfinished, {summary['rejected']} rejected"
            + (f"; {reasons})." if reasons else ").")
        )
    return "\n".join(f'<p class="warning">{escape(text)}</p>' for text in sentences)


def objectives(summary: dict[str, Any]) -> str:
    """The verdict on each limit, and goodput; empty where none is set."""
    found = list(summary["slo"])
    for figures in summary["classes"].values():
        found += figures["slo"]
    if not found and summary["goodput_share"] is None:
        return ""
    items = [
        f'<li><b class="{"good" if v["met"] else "bad"}">{"✓ met" if v["met"] else "✗ missed"}'
        f"</b> {escape(v['class_name'] + ': ' if v['class_name'] else '')}"
        f"{escape(v['metric'])} ≤ {v['limit_ms']:g}: {number(v['value_ms'])}</li>"
        for v in found
    ]
    if summary["goodput_share"] is not None:
        items.append(
            f"<li>{number(summary['goodput_share'] * 100)} % of the requests meet every SLO, "
            f"{number(summary['request_goodput'])} per second</li>"
        )
    return (
        '<section aria-labelledby="slo">\n<h2 id="slo">Service level objectives</h2>\n'
        '<ul class="verdicts">' + "\n".join(items) + "</ul>\n</section>"
    )


def latency(summary: dict[str, Any]) -> str:
    """Statistics of each latency."""
    names = [(title, key) for key, _, title in SECTIONS] + [("Queue time", "queue")]
    rows = [(title, *(summary[f"{s}_{key}_ms"] for s in STATISTICS)) for title, key in names]
    return table("milliseconds, completed requests", ("", *STATISTICS), rows)


def classes(summary: dict[str, Any]) -> str:
    """Latencies by class; empty without classes."""
    if not summary["classes"]:
        return ""
    keys = [f"{s}_{m}_ms" for m in ("ttft", "tpot", "e2el") for s in ("mean", "p99")]
    keys += ["p99.9_wait_ms", "max_wait_ms"]
    head = ("class", "completed", *(key.removesuffix("_ms").replace("_", " ") for key in keys))
    rows = [
        (name, figures["completed"], *(figures[key] for key in keys))
        for name, figures in summary["classes"].items()
    ]
    return (
        '<section aria-labelledby="classes">\n<h2 id="classes">Classes</h2>\n'
        + table("milliseconds, completed requests; waits of all that were not rejected", head, rows)
        + _fairness(summary["jain_index"], len(rows))
        + _costs(summary)
        + "\n</section>"
    )


def _costs(summary: dict[str, Any]) -> str:
    """What each class causes of the bill; empty where there is one."""
    rows = class_costs(summary)
    caption = "of the bill, by the time of the steps that a class's tokens took; $ per million"
    return table(caption, ("class", *CLASS_COSTS), rows) if rows else ""


def _fairness(index: float | None, classes: int) -> str:
    if index is None:
        return ""
    return (
        f"<p>Jain index of the service by class: {number(index)} (1: equal; "
        f"{number(1 / classes)}: one has all).</p>"
    )


def preemption(sentences: Sequence[str]) -> str:
    """Why requests were preempted, and what ends it; empty where none were."""
    if not sentences:
        return ""
    return (
        '<section aria-labelledby="preemption">\n'
        '<h2 id="preemption">Why requests are preempted</h2>\n<ul>'
        + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        + "</ul>\n</section>"
    )


def limits(summary: dict[str, Any]) -> str:
    """What held the work back, as bars."""
    rows = "\n".join(
        f'<tr><th scope="row">{escape(LIMITS[limit["resource"]])}</th>'
        f"<td>{limit['share']:.1%}</td>"
        f'<td class="meter"><span class="bar" style="width:{limit["share"]:.2%}"></span></td></tr>'
        for limit in summary["limits"]
    )
    return (
        '<div class="scroll"><table><caption>share of the replicas\' time that each resource held '
        f"the work back</caption><tbody>{rows}</tbody></table></div>"
    )


def throughput(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    """Rows on requests and tokens."""
    return [
        ("Completed requests", summary["completed"]),
        ("Duration (s)", summary["duration"]),
        ("Requests per second", summary["request_throughput"]),
        ("Output tokens per second", summary["output_throughput"]),
        ("Total tokens per second", summary["total_token_throughput"]),
        ("Peak concurrent requests", summary["max_concurrent_requests"]),
    ]


def engine(summary: dict[str, Any], reserved: bool) -> list[tuple[str, Any]]:
    """Rows on steps and the KV cache."""
    rows = [
        ("Engine steps", summary["num_steps"]),
        ("Mean batch size", summary["mean_batch_size"]),
        ("Mean tokens per step", summary["mean_tokens_per_step"]),
        ("Stalled (% of running time)", summary["decode_stall_share"] * 100),
        ("Tail bubble (% of slot-steps)", summary["tail_bubble_share"] * 100),
        ("Padding (% of tokens)", summary["padding_share"] * 100),
        ("KV usage, mean (%)", summary["kv_usage_mean"] * 100),
        ("KV usage, peak (%)", summary["kv_usage_peak"] * 100),
    ]
    shares = [("Internal fragmentation (% of held)", "kv_internal_fragmentation")]
    reservation = [
        ("Reserved but unused (% of held)", "kv_reserved_unused"),
        ("External fragmentation (% of free)", "kv_external_fragmentation"),
    ]
    return [
        *rows,
        *((name, summary[key] * 100) for name, key in shares + reservation * reserved),
        *_exhaustion(summary),
        ("Preemptions", summary["preemptions"]),
        ("Recomputed tokens", summary["recomputed_tokens"]),
    ]


def _exhaustion(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    if summary["kv_exhausted_s"] is None:
        return []
    return [
        ("Ran out of KV blocks first at (s)", summary["kv_exhausted_s"]),
        ("Requests that ran then", summary["kv_exhausted_running"]),
        ("KV slots filled then (%)", summary["kv_exhausted_filled"] * 100),
    ]


def hardware(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    """Rows on GPUs and money."""
    return [
        ("GPUs", summary["num_gpus"]),
        ("Utilisation (%)", summary["utilisation"] * 100),
        ("Host time (%)", summary["host_share"] * 100),
        ("MFU (%)", summary["mfu"] * 100),
        ("MBU (%)", summary["mbu"] * 100),
        *money(summary),
        *energy(summary),
    ]
