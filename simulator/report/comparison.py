"""The table of a comparison: each figure, and how many times the baseline's it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.report.block import wrapped

if TYPE_CHECKING:
    from rich.table import Table

    from simulator.planning.compare import Comparison


class Row(NamedTuple):
    """A line of the table: title, key in the summary, factor, decimals."""

    title: str
    key: str
    scale: float = 1.0
    decimals: int = 2
    relative: bool = True
    if_different: bool = False  # left out where all variants have the same


ROWS = (
    Row("Completed requests", "completed", decimals=0, relative=False),
    Row("Rejected", "rejected", decimals=0, relative=False),
    Row("Unfinished", "unfinished", decimals=0, relative=False),
    Row("Duration (s)", "duration"),
    Row("Requests (req/s)", "request_throughput"),
    Row("Goodput (req/s)", "request_goodput"),
    Row("Output tokens (tok/s)", "output_throughput", decimals=0),
    Row("Mean TTFT (ms)", "mean_ttft_ms", decimals=1),
    Row("Median TTFT (ms)", "median_ttft_ms", decimals=1),
    Row("P99 TTFT (ms)", "p99_ttft_ms", decimals=1),
    Row("Mean TPOT (ms)", "mean_tpot_ms"),
    Row("P99 TPOT (ms)", "p99_tpot_ms"),
    Row("Median ITL (ms)", "median_itl_ms"),
    Row("P99 ITL (ms)", "p99_itl_ms"),
    Row("Mean E2EL (ms)", "mean_e2el_ms", decimals=0),
    Row("Median E2EL (ms)", "median_e2el_ms", decimals=0),
    Row("P99 E2EL (ms)", "p99_e2el_ms", decimals=0),
    Row("Mean queue time (ms)", "mean_queue_ms", decimals=1),
    Row("Longest wait (ms)", "max_wait_ms", decimals=0, if_different=True),
    Row("Jain index of service", "jain_index", relative=False),
    Row("Mean batch size", "mean_batch_size"),
    Row("KV capacity (tokens)", "kv_capacity_tokens", decimals=0, if_different=True),
    Row("Stalled (% of running time)", "decode_stall_share", 100, 1, relative=False),
    Row("Tail bubble (% of slot-steps)", "tail_bubble_share", 100, 1, relative=False),
    Row("Padding (% of tokens)", "padding_share", 100, 1, relative=False),
    Row("KV usage, mean (%)", "kv_usage_mean", 100, 1, relative=False),
    Row("Preemptions", "preemptions", decimals=0, relative=False),
    Row("MFU (%)", "mfu", 100, 1),
    Row("Cost ($/M output tokens)", "cost_per_million_output_tokens", decimals=3),
)
OFTEN_ZERO = {"rejected", "unfinished", "request_goodput", "preemptions", "decode_stall_share",
              "tail_bubble_share", "padding_share", "jain_index"}  # fmt: skip


def comparison_table(comparison: Comparison) -> Table:
    """Figures by variant; "×" is how many times the first variant's figure it is.

    Rows that are zero, or not asked for, in all variants are left out.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for index, name in enumerate(comparison.results):
        table.add_column(name, justify="right", no_wrap=True)
        if index:
            table.add_column("×", justify="right", no_wrap=True, style="dim")
    for cells in table_cells(comparison):
        table.add_row(*cells)
    return table


def table_cells(comparison: Comparison) -> list[list[str]]:
    """The table's cells as text: title, baseline, then figure and ratio of each other."""
    summaries = list(comparison.summaries.values())
    rows = [["State", *_states(summaries)]]
    for row in ROWS:
        values = [_value(summary, row.key) for summary in summaries]
        if row.key in OFTEN_ZERO and not any(values):
            continue
        if row.if_different and len(set(values)) == 1:
            continue
        cells = [row.title, _figure(values[0], row)]
        for value in values[1:]:
            cells += [_figure(value, row), _ratio(value, values[0]) if row.relative else ""]
        rows.append(cells)
    return rows


def _value(summary: dict[str, Any], key: str) -> Any:
    """A figure; no TPOT where results come back whole, as the zero would win every time."""
    whole = summary["median_itl_ms"] is None
    return None if whole and key.endswith("_tpot_ms") else summary[key]


def comparison_notes(comparison: Comparison) -> str:
    """What differs between the variants, and why one wins, as text."""
    lines = ["What differs:"]
    for key, values in comparison.differences.items():
        named = ", ".join(
            f"{name}: {'-' if value is None else value}"
            for name, value in zip(comparison.results, values, strict=True)
        )
        lines += wrapped(f"{key}  ({named})", bullet="  ")
    lines.append("Why:")
    for sentence in comparison.reasons:
        lines += wrapped(sentence, bullet="- ")
    return "\n".join(lines)


def _states(summaries: list[dict[str, Any]]) -> list[str]:
    first, *others = (summary["state"] for summary in summaries)
    return [first, *(cell for state in others for cell in (state, ""))]


def _figure(value: Any, row: Row) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "n/a"
    return f"{value * row.scale:,.{row.decimals}f}"


def _ratio(value: Any, base: Any) -> str:
    if value is None or not base or math.isnan(value) or math.isnan(base):
        return ""
    ratio = value / base
    if ratio < 0.01:
        return "<0.01"
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}" if ratio < 1000 else ">1000"
