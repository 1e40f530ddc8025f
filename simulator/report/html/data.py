"""What the charts of report.html draw, as plain lists: panels above one common x axis.

A panel has a y axis and series.  A series is a line or an area whose value holds from each x
to the next, or stacked bars from x to end.  charts.js is the other side of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.metrics.latency import e2el_s, ttft_s
from simulator.metrics.leases import count_over_time, paid, serving
from simulator.recording import FINISHED, Recording
from simulator.report.plots import style
from simulator.report.plots.distributions import LEAST_SHARE, cumulative, gaps_above
from simulator.report.plots.series import (
    LAYER_LABELS,
    LAYERS,
    averages,
    occupancy,
    steps_within,
    waiting,
    waiting_at,
)
from simulator.report.plots.timeline import COLOURS, default_window

Data = dict[str, Any]
BINS = 1500  # over a run: more than a screen has columns, so that there is something to zoom into
POINTS = 700  # of a distribution


def timeline(recording: Recording, replica: int) -> Data:
    """Seats by step, and the queue, of a replica in the telling window."""
    window = default_window([recording])
    _, recording, replica = recording.pool_of(replica)
    steps = steps_within(recording.steps, window, replica)
    layers = occupancy(steps)
    seats = [
        {
            "name": LAYER_LABELS[name],
            "colour": COLOURS[name],
            "kind": "bars",
            "y": _rounded(layers[name], 2),
        }
        for name in LAYERS
        if layers[name].any()
    ]
    time_s, count = waiting(recording, window, replica if recording.replicas > 1 else None)
    most = max(float(sum(layers.values()).max(initial=0.0)), 1.0)  # type: ignore[union-attr]
    return {
        "x": _clock(window),
        "panels": [
            {
                "title": "Requests that hold a seat",
                "height": 210,
                "y": _axis("count", most * 1.05),
                "x": _rounded(steps.start_s, 5),
                "end": _rounded(steps.end_s, 5),
                "series": seats,
            },
            {
                "title": "Requests that wait",
                "height": 60,
                "y": _axis("count", max(float(count.max()) * 1.15, 1.0)),
                "series": [_series("waiting", style.FAINT, "area", time_s, count)],
            },
        ],
    }


def load(recording: Recording) -> Data:
    """Running, waiting and KV blocks over the whole run, averages of `BINS` stretches."""
    edges = np.linspace(0.0, max(recording.end_s, 1e-9), BINS + 1)
    steps = recording.steps
    means = averages(steps, edges, {"running": steps.running, "kv": steps.kv_blocks})
    queue = waiting_at(recording, (edges[1:] + edges[:-1]) / 2)
    held = means["kv"] / max(int(recording.kv_blocks_of_replicas().sum()), 1) * 100
    start = edges[:-1]
    most = max(float(means["running"].max()), float(queue.max()), 1.0)
    return {
        "x": _clock((0.0, float(edges[-1]))),
        "panels": [
            {
                "title": "Requests",
                "height": 160,
                "y": _axis("count", most * 1.05),
                "series": [
                    _series("running", style.DECODE, "line", start, means["running"]),
                    _series("waiting", style.STALLED, "line", start, queue),
                ],
            },
            {
                "title": "KV blocks held",
                "height": 80,
                "y": _axis("percent", min(max(float(held.max()) * 1.3, 5.0), 100.0)),
                "series": [_series("KV cache", style.KV, "area", start, held)],
            },
            *_replicas(recording),
        ],
    }


def _replicas(recording: Recording) -> list[Data]:
    """A panel of the replicas over time, where their number changes."""
    if recording.leases is None:
        return []
    there = [
        ("paid for", style.STALLED, *count_over_time(paid(recording))),
        ("serving", style.DECODE, *count_over_time(serving(recording))),
    ]
    return [
        {
            "title": "Replicas",
            "height": 70,
            "y": _axis("count", float(there[0][3].max()) * 1.1),
            "series": [_series(name, colour, "line", x, y) for name, colour, x, y in there],
        }
    ]


def gaps(recording: Recording) -> Data:
    """Share of the gaps between tokens that are longer than a time; both axes logarithmic."""
    value, above = gaps_above(recording, POINTS)
    shown = np.maximum(above, LEAST_SHARE / 10)
    series = {**_series("longer gaps", style.SERIES[0], "line", value, shown), "before": 1.0}
    return {
        "x": _times(value, "gap between two tokens of a request"),
        "panels": [
            {
                "title": "Gaps that are longer",
                "height": 220,
                "y": {
                    "scale": "log", "format": "share", "min": LEAST_SHARE, "max": 1.0,
                    "ticks": [1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5],
                },
                "series": [series] if len(value) else [],
            }
        ],
    }  # fmt: skip


def latencies(recording: Recording) -> Data:
    """Share of the completed requests that are faster than a time."""
    outcome = recording.outcome
    done = outcome.status == FINISHED
    samples = [("TTFT", ttft_s(outcome)[done]), ("E2EL", e2el_s(outcome)[done])]
    curves = [(name, *cumulative(seconds, POINTS)) for name, seconds in samples]
    return {
        "x": _times(np.concatenate([value for _, value, _ in curves]), "time from arrival"),
        "panels": [
            {
                "title": "Requests that are faster",
                "height": 220,
                "y": _axis("percent", 100.0) | {"ticks": [0, 25, 50, 75, 100]},
                "series": [
                    _series(name, style.SERIES[index], "line", value, share * 100)
                    for index, (name, value, share) in enumerate(curves)
                    if len(value)
                ],
            }
        ],
    }


def _series(name: str, colour: str, kind: str, x: NDArray[Any], y: NDArray[Any]) -> Data:
    return {"name": name, "colour": colour, "kind": kind, "x": _figures(x), "y": _figures(y)}


def _clock(window: Sequence[float]) -> Data:
    return {
        "label": "simulated time (s)", "scale": "linear", "format": "clock",
        "min": window[0], "max": window[1],
    }  # fmt: skip


def _times(values: NDArray[Any], label: str) -> Data:
    low, high = (float(values.min()), float(values.max())) if len(values) else (1e-3, 1.0)
    return {
        "label": label, "scale": "log", "format": "seconds",
        "min": low / 1.1, "max": high * 1.1,
    }  # fmt: skip


def _axis(form: str, most: float) -> Data:
    return {"scale": "linear", "format": form, "min": 0, "max": most}


def _rounded(values: NDArray[Any], decimals: int) -> list[float]:
    return [int(v) if v == int(v) else v for v in np.round(values, decimals).tolist()]


def _figures(values: NDArray[Any]) -> list[float]:
    """Six significant digits, as short as JSON can have them."""
    return [int(v) if v == int(v) else v for v in (float(f"{x:.6g}") for x in values.tolist())]
