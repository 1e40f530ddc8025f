"""The console table of NVIDIA's AIPerf, with AIPerf's definitions.

Source: docs/metrics_reference.md, metrics/metric_dicts.py and the console exporter of
github.com/ai-dynamo/aiperf.  Per request:

- inter token latency: (request latency - TTFT) / (output tokens - 1), which vLLM calls TPOT;
  a request of one token has none;
- output token throughput per user: 1 / inter token latency;
- time to first output token: as TTFT where nothing is reasoning.

Percentiles interpolate linearly and std is the population's.  Throughputs are over the time
from the first request to the last response.  Time to second token is not printed, since a
run does not record it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.metrics.latency import Floats, e2el_s, population, tpot_s, ttft_s
from simulator.recording import Recording

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.scenario import Scenario

STATISTICS = ("avg", "min", "max", "p99", "p90", "p50", "std")


class Metric(NamedTuple):
    """A row of the table: its name and unit, and the sample or the single figure behind it."""

    name: str
    unit: str
    values: Floats | float


def aiperf_metrics(recording: Recording, scenario: Scenario) -> list[Metric]:
    """AIPerf's metrics of a run, in the order in which it prints them.

    Metrics of the token stream are left out where a static batch answers all at once.
    """
    who = population(recording, scenario.cut_s)
    outcome, rows = recording.outcome, who.completed
    itl_s = tpot_s(outcome)[rows]
    itl_s = itl_s[~np.isnan(itl_s)]
    tokens = outcome.generated_tokens[rows].astype(np.float64)
    prompts = recording.requests.prompt_tokens[rows].astype(np.float64)
    duration_s = who.duration_s
    first = ttft_s(outcome)[rows] * 1e3
    streams = scenario.scheduler.policy != "static" or scenario.scheduler.static.stream
    found = []
    if streams:
        found += [
            Metric("Time to First Token", "ms", first),
            Metric("Time to First Output Token", "ms", first),
        ]
    found.append(Metric("Request Latency", "ms", e2el_s(outcome)[rows] * 1e3))
    if streams:
        found += [
            Metric("Inter Token Latency", "ms", itl_s * 1e3),
            Metric("Output Token Throughput Per User", "tokens/sec/user", 1 / itl_s),
        ]
    return [
        *found,
        Metric("Output Sequence Length", "tokens", tokens),
        Metric("Input Sequence Length", "tokens", prompts),
        Metric("Output Token Throughput", "tokens/sec", _rate(tokens.sum(), duration_s)),
        Metric("Request Throughput", "requests/sec", _rate(len(tokens), duration_s)),
        Metric("Request Count", "requests", float(len(tokens))),
    ]


def statistics(values: Floats | float) -> list[float | None]:
    """One figure per entry of `STATISTICS`; None for those that AIPerf shows as N/A."""
    if isinstance(values, float):
        return [None if np.isnan(values) else values, *[None] * (len(STATISTICS) - 1)]
    if not len(values):
        return [None] * len(STATISTICS)
    p99, p90, p50 = np.percentile(values, [99, 90, 50])
    return [
        float(figure)
        for figure in (values.mean(), values.min(), values.max(), p99, p90, p50, values.std())
    ]


def aiperf_block(recording: Recording, scenario: Scenario) -> str:
    """The table as text."""
    from rich.console import Console

    console = Console(width=140, no_color=True)
    with console.capture() as captured:
        console.print(_table(aiperf_metrics(recording, scenario)))
    return captured.get().rstrip("\n")


def _table(metrics: list[Metric]) -> Table:
    from rich.table import Table

    table = Table(title="LLM Metrics as AIPerf defines them")
    table.add_column("Metric", justify="right")
    for name in STATISTICS:
        table.add_column(name, justify="right")
    for metric in metrics:
        gap = "\n" if len(metric.name) > 30 else " "
        figures = statistics(metric.values)
        cells = ["N/A" if figure is None else f"{figure:,.2f}" for figure in figures]
        table.add_row(f"{metric.name}{gap}({metric.unit})", *cells)
    return table


def _rate(part: float, whole_s: float) -> float:
    return float(part / whole_s) if whole_s > 0 else float("nan")
