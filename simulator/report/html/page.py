"""report.html: one self-contained page, readable without a network, on light and dark."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from simulator.metrics.steps import reserves_room
from simulator.report.html import sections
from simulator.report.html.figures import figures
from simulator.report.text import memory_sum

if TYPE_CHECKING:
    from simulator.simulation import Result


def html_page(result: Result) -> str:
    """The report of a run as HTML; everything that comes from outside is escaped.

    Styles, script and data are in the page, whose policy forbids it to fetch anything.  The
    script draws the charts in place of still pictures, which remain where it may not run.
    """
    summary, resolved = result.summary, result.resolved
    scenario = resolved.scenario
    return Template(_file("page.html")).substitute(
        title=escape(f"{scenario.name} · servecast"),
        style=_file("page.css"),
        script=_file("axes.js") + _file("charts.js"),
        name=escape(scenario.name),
        subtitle=escape(
            f"{resolved.model.name} on {summary['num_gpus']} × {resolved.gpu.name}, "
            f"{scenario.scheduler.policy}, {summary['num_prompts']:,} requests, "
            f"{summary['simulated_s']:,.1f} s simulated"
        ),
        state=sections.state(summary),
        warnings=sections.warnings(summary),
        cards=sections.cards(summary),
        objectives=sections.objectives(summary),
        latency=sections.latency(summary),
        classes=sections.classes(summary),
        limits=sections.limits(summary),
        preemption=sections.preemption(result.preemption_reasons),
        figures="\n".join(figures(result)),
        throughput=sections.pairs("Throughput", sections.throughput(summary)),
        engine=sections.pairs(
            "Batch and KV cache", sections.engine(summary, reserves_room(scenario))
        ),
        memory=sections.pairs("Memory of one GPU (GiB)", memory_sum(resolved)),
        hardware=sections.pairs("Hardware and cost", sections.hardware(summary)),
        provenance=escape(resolved.cost.provenance),
        notes="\n".join(f"<li>{escape(note)}</li>" for note in resolved.notes),
        scenario=escape(scenario.to_yaml()),
    )


def _file(name: str) -> str:
    return (files("simulator.report.html") / name).read_text("utf-8")
