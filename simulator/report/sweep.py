"""What `servecast sweep` prints: points side by side, the efficient ones marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.planning.replicated import worst
from simulator.planning.statistics import mean_interval
from simulator.planning.sweep.table import PER_GPU, PER_USER
from simulator.report.block import wrapped
from simulator.scenario.overrides import in_line
from simulator.words import counted

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from simulator.planning.sweep import Sweep

MOST_ROWS = 60
EFFICIENT = "★"


class Figure(NamedTuple):
    """A column: its title, its name in the table, a factor and decimals."""

    title: str
    column: str
    scale: float = 1.0
    decimals: int = 1


FIGURES = (
    Figure("req/s", "request_throughput", decimals=2),
    Figure("good %", "goodput_share", 100),
    Figure("tok/s\n/GPU", PER_GPU, decimals=0),
    Figure("tok/s\n/user", PER_USER),
    Figure("TTFT\np99 ms", "p99_ttft_ms", decimals=0),
    Figure("TPOT\np99 ms", "p99_tpot_ms"),
    Figure("GPU\nhours", "gpu_hours", decimals=2),
    Figure("$/M\nout", "cost_per_million_output_tokens", decimals=3),
)


def sweep_table(sweep: Sweep) -> Table:
    """A line per point, means over replicates ± half of their 95 % confidence interval.

    Points that failed are in `sweep_notes`.  Of more than `MOST_ROWS` points, only the
    efficient ones are shown.
    """
    from rich import box
    from rich.table import Table

    frame = sweep.table
    done = frame[frame["status"] == "ok"]
    shown = done if done["point"].nunique() <= MOST_ROWS else done[done["pareto"]]
    figures = [figure for figure in FIGURES if done[figure.column].notna().any()]
    short = short_names(sweep.plan.keys)
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    titles = [*(f.title for f in figures), *(["SLO"] if done["slo_met"].notna().any() else [])]
    for title in ("#", *short.values(), *titles):
        out.add_column(title, justify="right", no_wrap=True)
    for title in ("state", "limited by", ""):
        out.add_column(title, no_wrap=True)
    for _, rows in shown.groupby("point"):
        point = sweep.plan.points[int(rows["point"].iloc[0])]
        cells = [str(point.number), *(in_line(point.values[key]) for key in short)]
        cells += [_mean(rows[figure.column], figure) for figure in figures]
        if len(titles) > len(figures):
            cells.append(_met(rows["slo_met"]))
        resource = rows["limiting_resource"].mode()
        cells += [
            worst(rows["state"]),
            str(resource.iloc[0]) if len(resource) else "",
        ]
        out.add_row(*cells, EFFICIENT if rows["pareto"].iloc[0] else "")
    return out


def sweep_notes(sweep: Sweep, folder: str | None) -> str:
    """What the table means, what failed, and where the step costs come from."""
    frame, plan = sweep.table, sweep.plan
    done = frame[frame["status"] == "ok"]
    lines = wrapped(
        f"{EFFICIENT}: no other point is at least as good in both tok/s/GPU and tok/s/user "
        "(the reciprocal of the median TPOT) and better in one; never an overloaded one.",
        bullet="- ",
    )
    if plan.replicates > 1:
        lines += wrapped(
            f"Means of {plan.replicates} replicates ± half of the 95 % confidence interval "
            "(Student's t); all points have the same random numbers.",
            bullet="- ",
        )
    left_out = done["point"].nunique() - int(done["pareto"].groupby(done["point"]).any().sum())
    if done["point"].nunique() > MOST_ROWS:
        where = f"{folder}/results.csv" if folder else "the tables of --out DIR"
        lines += wrapped(
            f"{counted(left_out, 'point')} more, not efficient, in {where}.", bullet="- "
        )
    lines += _failures(frame, sweep)
    for provenance in sweep.provenances[:3]:
        lines += wrapped(" ".join(provenance.split()), bullet="- Step cost: ")
    return "\n".join(lines)


def _failures(frame: pd.DataFrame, sweep: Sweep) -> Iterable[str]:
    """One sentence for each error, and the points that ended with it."""
    failed = frame[frame["status"] == "failed"]
    out: list[str] = []
    for sentence, rows in failed.groupby("error", sort=False):
        numbers = sorted(set(rows["point"]))
        named = f"#{numbers[0]} ({sweep.plan.points[numbers[0]]})"
        others = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        out += wrapped(f"{named}{others}: {sentence}", bullet="! ")
    return out


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, or as many parts as tell it from the others."""
    out = {}
    for key in keys:
        parts = key.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[-count:])
            if sum(other.endswith(f".{name}") or other == name for other in keys) == 1:
                break
        out[key] = name
    return out


def _mean(values: pd.Series[Any], figure: Figure) -> str:
    found = mean_interval(values.astype(float).to_numpy() * figure.scale)
    if math.isnan(found.estimate):
        return "n/a"
    text = f"{found.estimate:,.{figure.decimals}f}"
    return (
        text
        if math.isnan(found.half_width)
        else f"{text} ± {found.half_width:,.{figure.decimals}f}"
    )


def _met(values: pd.Series[Any]) -> str:
    """✓, ✗, or in how many replicates."""
    met = int(values.astype(bool).sum())
    return "✓" if met == len(values) else f"{met}/{len(values)}" if met else "✗"
