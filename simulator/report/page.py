"""report.html: one self-contained page, readable without a network, on light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from simulator.metrics.backlog import STABLE
from simulator.metrics.limits import LIMITS
from simulator.metrics.steps import reserves_room
from simulator.report.benchmark import SECTIONS
from simulator.report.block import number
from simulator.report.text import STATE_MEANS, memory_sum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.simulation import Result

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def html_page(result: Result) -> str:
    """The report of a run as HTML; everything that comes from outside is escaped."""
    summary, resolved = result.summary, result.resolved
    scenario = resolved.scenario
    template = Template((files("simulator.report") / "page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(f"{scenario.name} · servecast"),
        name=escape(scenario.name),
        subtitle=escape(
            f"{resolved.model.name} on {summary['num_gpus']} × {resolved.gpu.name}, "
            f"{scenario.scheduler.policy}, {summary['num_prompts']} requests, "
            f"{summary['simulated_s']:.1f} s simulated"
        ),
        state=_state(summary),
        warnings=_warnings(summary),
        objectives=_objectives(summary),
        latency=_latency(summary),
        classes=_classes(summary),
        limits=_limits(summary),
        throughput=_pairs("Throughput", _throughput(summary)),
        engine=_pairs("Batch and KV cache", _engine(summary, reserves_room(scenario))),
        memory=_pairs("Memory of one GPU (GiB)", memory_sum(resolved)),
        hardware=_pairs("Hardware and cost", _hardware(summary)),
        plots="\n".join(_plots(result)),
        provenance=escape(resolved.cost.provenance),
        notes="\n".join(f"<li>{escape(note)}</li>" for note in resolved.notes),
        scenario=escape(scenario.to_yaml()),
    )


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a caption; the first cell of each row is its header."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "\n".join(
        f'<tr><th scope="row">{escape(str(first))}</th>'
        + "".join(f"<td>{escape(number(value))}</td>" for value in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    )


def _pairs(caption: str, rows: Iterable[Sequence[Any]]) -> str:
    return table(caption, ("", "value"), rows)


def _state(summary: dict[str, Any]) -> str:
    kind = "good" if summary["state"] == STABLE else "bad"
    return f'<span class="state {kind}">{escape(summary["state"])}</span>'


def _warnings(summary: dict[str, Any]) -> str:
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


def _objectives(summary: dict[str, Any]) -> str:
    found = list(summary["slo"])
    for figures in summary["classes"].values():
        found += figures["slo"]
    if not found and summary["goodput_share"] is None:
        return ""
    items = [
        f'<li><span class="{"good" if v["met"] else "bad"}">{"✓ met" if v["met"] else "✗ missed"}'
        f"</span> {escape(v['class_name'] + ': ' if v['class_name'] else '')}"
        f"{escape(v['metric'])} ≤ {v['limit_ms']:g}: {number(v['value_ms'])}</li>"
        for v in found
    ]
    if summary["goodput_share"] is not None:
        items.append(
            f"<li>{number(summary['goodput_share'] * 100)} % of the requests meet every SLO, "
            f"{number(summary['request_goodput'])} per second</li>"
        )
    return "<h2>Service level objectives</h2>\n<ul>" + "\n".join(items) + "</ul>"


def _latency(summary: dict[str, Any]) -> str:
    names = [(title, key) for key, _, title in SECTIONS] + [("Queue time", "queue")]
    rows = [(title, *(summary[f"{s}_{key}_ms"] for s in STATISTICS)) for title, key in names]
    return table("milliseconds, completed requests", ("", *STATISTICS), rows)


def _classes(summary: dict[str, Any]) -> str:
    if not summary["classes"]:
        return ""
    keys = [f"{s}_{m}_ms" for m in ("ttft", "tpot", "e2el") for s in ("mean", "p99")]
    head = ("class", "completed", *(key.removesuffix("_ms").replace("_", " ") for key in keys))
    rows = [
        (name, figures["completed"], *(figures[key] for key in keys))
        for name, figures in summary["classes"].items()
    ]
    return "<h2>Classes</h2>\n" + table("milliseconds, completed requests", head, rows)


def _limits(summary: dict[str, Any]) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(LIMITS[limit["resource"]])}</th>'
        f"<td>{limit['share']:.1%}</td>"
        f'<td><span class="bar" style="width:{limit["share"] * 20:.2f}rem"></span></td></tr>'
        for limit in summary["limits"]
    )
    return (
        "<table><caption>share of the replicas' time that each resource held the work back"
        f"</caption><tbody>{rows}</tbody></table>"
    )


def _throughput(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("Completed requests", summary["completed"]),
        ("Duration (s)", summary["duration"]),
        ("Requests per second", summary["request_throughput"]),
        ("Output tokens per second", summary["output_throughput"]),
        ("Total tokens per second", summary["total_token_throughput"]),
        ("Peak concurrent requests", summary["max_concurrent_requests"]),
    ]


def _engine(summary: dict[str, Any], reserved: bool) -> list[tuple[str, Any]]:
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
    internal = [("Internal fragmentation (% of held)", "kv_internal_fragmentation")]
    reservation = [
        ("Reserved but unused (% of held)", "kv_reserved_unused"),
        ("External fragmentation (% of free)", "kv_external_fragmentation"),
    ]
    return [
        *rows,
        *((name, summary[key] * 100) for name, key in (reservation if reserved else internal)),
        ("Preemptions", summary["preemptions"]),
        ("Recomputed tokens", summary["recomputed_tokens"]),
    ]


def _hardware(summary: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("GPUs", summary["num_gpus"]),
        ("Utilisation (%)", summary["utilisation"] * 100),
        ("Host time (%)", summary["host_share"] * 100),
        ("MFU (%)", summary["mfu"] * 100),
        ("MBU (%)", summary["mbu"] * 100),
        ("$ per GPU and hour", float(summary["price_per_gpu_hour"])),
        ("$ per million output tokens", summary["cost_per_million_output_tokens"]),
        ("$ per million total tokens", summary["cost_per_million_total_tokens"]),
    ]


def _plots(result: Result) -> list[str]:
    if not len(result.recording.steps.start_s):
        return ["<p>No step was run.</p>"]
    from simulator.report import plots

    drawn = (
        ("Seats of one replica by what their holders do, and the queue, step by step, in the "
         "stretch in which most is lost", plots.plot_timeline(result)),
        ("Running and waiting requests and KV cache usage over the run", plots.plot_load(result)),
        ("Distribution of the gaps between tokens", plots.plot_itl(result)),
        ("Distribution of TTFT and end-to-end latency", plots.plot_latency(result)),
    )  # fmt: skip
    return [
        f"<figure>{_svg(figure, caption)}<figcaption>{escape(caption)}.</figcaption></figure>"
        for caption, figure in drawn
    ]


def _svg(figure: Figure, about: str) -> str:
    """The figure as SVG with its text as text, in the page's own colour."""
    import matplotlib

    from simulator.report.plots.style import INK

    buffer = io.StringIO()
    # A fixed salt and no date: the same run gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": about}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    # Names of groups repeat from figure to figure, and a page must hold each id once.
    svg = re.sub(r'<g id="[^"]*"', "<g", re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(about)}" ', 1)
