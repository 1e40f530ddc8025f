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
    Row("Prompt tokens from the cache (%)", "prefix_hit_rate", 100, 1, relative=False),
    Row("KV usage, mean (%)", "kv_usage_mean", 100, 1, relative=False),
    Row("Preemptions", "preemptions", decimals=0, relative=False),
    Row("MFU (%)", "mfu", 100, 1),
    Row("Replicas, mean", "mean_replicas", if_different=True),
    Row("GPU-hours", "gpu_hours", if_different=True),
    Row("Cost ($/M output tokens)", "cost_per_million_output_tokens", decimals=3),
    Row("Energy, estimate (Wh/M output)", "energy_wh_per_million_output_tokens", decimals=0),
)
OFTEN_ZERO = {"rejected", "unfinished", "request_goodput", "preemptions", "decode_stall_share",
              "tail_bubble_share", "padding_share", "prefix_hit_rate", "jain_index"}  # fmt: skip


def comparison_table(comparison: Comparison) -> Table:
    """Figures by variant; "×" is how many times the first variant's figure it is.

    With replicates, figures are means, and the difference from the first variant is given
    with its confidence interval, * where that excludes 0.  Rows that are zero, or not asked
    for, in all variants are left out.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for index, name in enumerate(comparison.results):
        table.add_column(name, justify="right", no_wrap=True)
        if index:
            table.add_column("×", justify="right", no_wrap=True, style="dim")
            if comparison.replicates > 1:
                table.add_column("difference", justify="right", no_wrap=True)
    for cells in table_cells(comparison):
        table.add_row(*cells)
    return table


def table_cells(comparison: Comparison) -> list[list[str]]:
    """The table's cells as text: title, baseline, then figure, ratio and, with replicates,
    difference of each other."""
    summaries = list(comparison.summaries.values())
    names = list(comparison.summaries)
    several = comparison.replicates > 1
    blank = [""] * (2 if several else 1)
    rows = [_spread("State", [summary["state"] for summary in summaries], blank)]
    verdicts = [_verdicts(summary) for summary in summaries]
    if any(verdicts):
        rows.append(_spread("Objectives met", verdicts, blank))
    for row in _shown(summaries):
        values = [_value(summary, row.key) for summary in summaries]
        cells = [row.title, _figure(values[0], row)]
        for name, value in zip(names[1:], values[1:], strict=True):
            cells += [_figure(value, row), _ratio(value, values[0]) if row.relative else ""]
            if several:
                missing = value is None or values[0] is None
                cells.append("" if missing else _difference(comparison, name, row))
        rows.append(cells)
    return rows


def _shown(summaries: list[dict[str, Any]]) -> list[Row]:
    """Rows that have something to compare."""
    shown = []
    for row in ROWS:
        values = [_value(summary, row.key) for summary in summaries]
        idle = row.key in OFTEN_ZERO and not any(values)
        alike = row.if_different and len(set(values)) == 1
        if not idle and not alike:
            shown.append(row)
    return shown


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
    lines += ["Is it chance:", *_significance(comparison)]
    lines.append("Why:")
    for sentence in comparison.reasons:
        lines += wrapped(sentence, bullet="- ")
    return "\n".join(lines)


def _significance(comparison: Comparison) -> list[str]:
    """Which differences replicates tell from chance, and which they do not."""
    if comparison.replicates == 1:
        return wrapped(
            "one run of each: nobody can tell a small difference from chance; --replicates 5 "
            "would.",
            bullet="- ",
        )
    lines = []
    shown = _shown(list(comparison.summaries.values()))
    for name in list(comparison.results)[1:]:
        found = {row: comparison.difference(name, row.key) for row in shown if row.relative}
        told = [row for row, interval in found.items() if interval.excludes(0.0)]
        same = [row for row, i in found.items() if not i.excludes(0.0) and not math.isnan(i.low)]
        for which, rows in (("differs from", told), ("cannot be told from", same)):
            if rows:
                titles = ", ".join(row.title.split(" (")[0] for row in rows)
                lines += wrapped(f"{name} {which} {comparison.baseline} in {titles}.", bullet="- ")
    return lines + wrapped(
        f"95 % confidence intervals of the paired difference over {comparison.replicates} "
        "replicates (Student's t), each figure by itself: of twenty that are the same, one would "
        "seem to differ.",
        bullet="- ",
    )


def _spread(title: str, values: list[str], blank: list[str]) -> list[str]:
    """A row of words, with nothing in the columns that compare."""
    first, *others = values
    return [title, first, *(cell for value in others for cell in (value, *blank))]


def _verdicts(summary: dict[str, Any]) -> str:
    """How many of a variant's own objectives are met."""
    found = [*summary["slo"], *(v for c in summary["classes"].values() for v in c["slo"])]
    return f"{sum(verdict['met'] for verdict in found)} of {len(found)}" if found else ""


def _difference(comparison: Comparison, name: str, row: Row) -> str:
    """Mean of the paired differences ± half of its interval; * where that excludes 0."""
    found = comparison.difference(name, row.key)
    if math.isnan(found.half_width):
        return ""
    mark = "*" if found.excludes(0.0) else " "
    estimate, half = found.estimate * row.scale, found.half_width * row.scale
    return f"{estimate:+,.{row.decimals}f} ± {half:,.{row.decimals}f}{mark}"


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
