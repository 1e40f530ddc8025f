"""Where latency went: each part of it, for all requests and for the slowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.metrics.attribution import PARTS, TITLES, Floats
from simulator.report.block import readable_s
from simulator.report.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.simulation import Result

COLOURS = dict(
    zip(
        PARTS,
        (
            style.FAINT,
            style.KV,
            style.PREFILL,
            style.STALLED,
            style.DECODE,
            "#56B4E9",
            "#CC79A7",
            "#8C6D1F",
            style.INK,
        ),
        strict=True,
    )
)
GROUPS = {"all": 1.0, "slowest 10 %": 0.1, "slowest 1 %": 0.01}


def slowest(parts_s: Floats, share: float) -> Floats:
    """(n, parts) rows with the largest sums: the given share of those that finished, at least
    one."""
    done = parts_s[~np.isnan(parts_s).any(axis=1)]
    count = max(round(share * len(done)), 1)
    return done[np.argsort(done.sum(axis=1), kind="stable")[-count:]]


def plot_attribution(result: Result) -> Figure:
    """Mean parts of the time to first token and of the end-to-end latency, as stacked bars.

    One bar for all requests that finished, one each for the slowest tenth and hundredth.
    """
    from matplotlib.patches import Patch

    attribution = result.attribution
    figure = style.new_figure(10, 2.9, header=0.75)
    figure.subplots_adjust(left=0.1, wspace=0.12)
    panels = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(GROUPS))[::-1]
    shown = np.zeros(len(PARTS), bool)
    for axes, parts_s, name in (
        (panels[0], attribution.ttft_s, "Time to first token"),
        (panels[1], attribution.e2el_s, "End-to-end latency"),
    ):
        means = np.array([slowest(parts_s, share).mean(axis=0) for share in GROUPS.values()])
        left = np.zeros(len(GROUPS))
        for index, part in enumerate(PARTS):
            axes.barh(places, means[:, index], left=left, height=0.62, color=COLOURS[part])
            left += means[:, index]
            shown[index] |= bool((means[:, index] > 0.002 * means.sum(axis=1)).any())
        for place, total in zip(places, left, strict=True):
            axes.annotate(
                readable_s(total), (total, place), (4, 0), textcoords="offset points",
                va="center", fontsize=style.FONT_SIZE - 1, color=style.INK,
            )  # fmt: skip
        axes.set_xlim(0, float(left.max()) * 1.18 or 1.0)
        style.quiet(axes, grid="x")
        style.title(axes, name)
        style.label(axes, x="mean (s)")
    panels[0].set_yticks(places, list(GROUPS))
    figure.legend(
        handles=[
            Patch(facecolor=COLOURS[part], label=TITLES[part])
            for part, drawn in zip(PARTS, shown, strict=True)
            if drawn
        ],
        loc="upper left", ncols=len(PARTS), frameon=False, fontsize=style.FONT_SIZE,
        labelcolor=style.INK, handlelength=1.2, columnspacing=1.4,
    )  # fmt: skip
    return figure
