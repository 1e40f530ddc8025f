"""The charts of report.html: a still picture, its data for the script, and what it shows."""

from __future__ import annotations

import io
import json
import re
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.report.block import readable_s
from simulator.report.files import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.simulation import Result

Data = dict[str, Any]


def figures(result: Result) -> list[str]:
    """The charts as HTML figures; their captions say in words what they show."""
    if not len(result.recording.steps.start_s):
        return ["<p>No step was run.</p>"]
    from simulator.report import plots
    from simulator.report.html import data

    drawn = (
        *(
            (
                f"Seats of one {pool}replica by what their holders do, and the queue, step by "
                "step, in the stretch in which most time is lost.",
                plots.plot_timeline(result, replica=first),
                data.timeline(result.recording, first),
                True,
            )
            for pool, _, first in result.recording.pools()
        ),
        (
            f"Running and waiting requests and the KV cache over the run. {_load(result)}",
            plots.plot_load(result),
            data.load(result.recording),
            True,
        ),
        (
            f"Distribution of the gaps between tokens. {_gaps(result.summary)}",
            plots.plot_itl(result),
            data.gaps(result.recording),
            False,
        ),
        (
            f"Distribution of time to first token and end-to-end latency. "
            f"{_latencies(result.summary)}",
            plots.plot_latency(result),
            data.latencies(result.recording),
            False,
        ),
    )
    return [
        _figure(caption, still, numbers, wide=wide)
        for caption, still, numbers, wide in drawn
        if numbers["panels"][0]["series"]
    ] + [*_attribution(result), *_memory_map(result)]


def _attribution(result: Result) -> list[str]:
    """Bars of what latency went to, where any request finished."""
    from simulator.metrics.attribution import TITLES
    from simulator.report import plots

    shares = result.summary["attribution"]["e2el"]
    if not shares:
        return []
    largest = sorted(shares, key=lambda part: -shares[part])[:2]
    named = ", ".join(f"{TITLES[part]} {shares[part]:.0%}" for part in largest)
    caption = (
        "What the time to first token and the end-to-end latency went to, on average over all "
        f"requests and over the slowest. Most of it: {named}."
    )
    return [_still(plots.plot_attribution(result), caption)]


def _memory_map(result: Result) -> list[str]:
    """The map of a contiguous allocator; other allocators have no places to show."""
    from simulator.report import plots

    if result.recording.reservations is None:
        return []
    caption = (
        "Map of one replica's KV cache, a bar for each request: what its tokens fill, and what is "
        "reserved for it and empty; below, where all blocks went."
    )
    return [_still(plots.plot_memory_map(result), caption)]


def _still(picture: Figure, caption: str) -> str:
    """A picture that stays one."""
    return (
        f'<figure class="wide"><div class="still">{_svg(picture, caption)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _figure(caption: str, still: Figure, numbers: Data, *, wide: bool) -> str:
    """A still picture and, beside it, the data that the script draws in its place."""
    # "<" could end the script's element or begin a comment.
    text = json.dumps(plain(numbers), separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c")
    return (
        f'<figure class="chart{" wide" if wide else ""}">'
        f'<div class="still">{_svg(still, caption)}</div>'
        f'<script type="application/json">{text}</script>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _load(result: Result) -> str:
    summary = result.summary
    return (
        f"On average {summary['mean_batch_size']:.1f} requests run in a step; the KV cache is "
        f"{summary['kv_usage_peak']:.0%} full at most."
    )


def _gaps(summary: Data) -> str:
    if summary["median_itl_ms"] is None or np.isnan(summary["median_itl_ms"]):
        return ""
    half, tail = (readable_s(summary[key] / 1e3) for key in ("median_itl_ms", "p99_itl_ms"))
    return f"Half of the gaps are at most {half}, 99 % at most {tail}."


def _latencies(summary: Data) -> str:
    if np.isnan(summary["median_ttft_ms"]):
        return ""
    half, tail = (readable_s(summary[key] / 1e3) for key in ("median_ttft_ms", "p99_ttft_ms"))
    return f"Half of the requests have their first token within {half}, 99 % within {tail}."


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
