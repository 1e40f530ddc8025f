"""A sweep at a glance: what is efficient, and where the objectives are met.

Both plots read the results table of `simulator.planning.sweep`, which may come from a file;
replicates are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import InputError
from simulator.metrics.backlog import OVERLOADED
from simulator.report.plots import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator.scenario import Scenario

USER, GPU = "output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu"
ROOM = (0.16, 0.075)  # that the settings beside a point take, as shares of the axes
BARELY_MISSED = 1.001
MET, MISSED = style.KV, style.STALLED


def objectives_ms(scenario: Scenario) -> dict[str, float]:
    """A scenario's objectives by their name in a sweep's table, with their limits."""
    found = {target.key: target.limit_ms for target in scenario.slo.targets}
    for spec in scenario.workload.classes:
        found |= {f"{spec.name}.{target.key}": target.limit_ms for target in spec.slo.targets}
    return found


def swept_keys(table: pd.DataFrame) -> list[str]:
    """The keys that a sweep varied: the columns between `replicate` and `status`."""
    names = list(table.columns)
    return names[names.index("replicate") + 1 : names.index("status")]


def plot_pareto(table: pd.DataFrame) -> Figure:
    """Speed for one user against tokens of one GPU; the efficient points joined and named.

    Points that miss an objective are hollow, overloaded ones are crosses: their speed is that
    of a run which no longer keeps up.
    """
    points = _means(table)
    figure = style.new_page(8, 4.8)
    axes = figure.subplots()
    overloaded = points["overloaded"].to_numpy(bool)
    missed = ~overloaded & (points["slo_met"] == False).to_numpy(bool)  # noqa: E712 (may be NA)
    good = ~overloaded & ~missed
    objectives = points["slo_met"].notna().any()
    kinds: tuple[tuple[Any, str, dict[str, Any]], ...] = (
        (good, "meets every SLO" if objectives else "stable",
         {"marker": "o", "color": style.DECODE}),
        (missed, "misses an SLO",
         {"marker": "o", "facecolors": "none", "edgecolors": style.DECODE}),
        (overloaded, "overloaded", {"marker": "x", "color": style.FAINT}),
    )  # fmt: skip
    for rows, name, look in kinds:
        if rows.any():
            chosen = points[rows]
            axes.scatter(chosen[USER], chosen[GPU], s=34, label=name, zorder=3, **look)
    front = points[points["pareto"].fillna(False).astype(bool)].sort_values(USER)
    axes.plot(front[USER], front[GPU], color=style.STALLED, linewidth=1.2, label="efficient")
    axes.margins(x=0.12, y=0.1)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _name_settings(axes, front, swept_keys(table))
    style.quiet(axes, grid="both")
    style.label(axes, x="speed for one user (output tokens/s)", y="output tokens/s per GPU")
    style.title(axes, "Speed for one user against tokens per GPU")
    axes.legend(frameon=False, fontsize=style.FONT_SIZE, labelcolor=style.INK, loc="lower left")
    return figure


def _name_settings(axes: Axes, front: pd.DataFrame, keys: Sequence[str]) -> None:
    """Write settings beside points, leaving out those whose text would lie on another's."""
    taken: list[np.ndarray[Any, Any]] = []
    for _, point in front.iterrows():
        place = axes.transAxes.inverted().transform(
            axes.transData.transform((point[USER], point[GPU]))
        )
        if any((np.abs(place - other) < ROOM).all() for other in taken):
            continue
        taken.append(place)
        axes.annotate(
            "\n".join(f"{key.rpartition('.')[2]} {_short(point[key])}" for key in keys),
            (point[USER], point[GPU]), (6, 4), textcoords="offset points",
            fontsize=style.FONT_SIZE - 2, color=style.INK,
        )  # fmt: skip


def plot_slo_region(
    table: pd.DataFrame, limits_ms: Mapping[str, float], keys: Sequence[str] = ()
) -> Figure:
    """Where a sweep meets its objectives, over one or two of the keys that it varied.

    Over one key each objective is a curve, as a multiple of its limit, with the tokens per
    GPU below.  Over two keys each cell says how far the worst objective is from its limit.

    Parameters
    ----------
    table : results of a sweep.
    limits_ms : objective (``p99_ttft_ms``, or ``CLASS.p99_ttft_ms``) to its limit.
    keys : one or two swept keys; by default the first ones.  Over those that are left out,
        the best value counts.

    Raises
    ------
    InputError : without objectives, or for a key that was not swept.
    """
    swept = swept_keys(table)
    for key in keys:
        if key not in swept:
            raise InputError(f"{key} was not swept; choose from {', '.join(swept)}.")
    if not limits_ms:
        raise InputError("a region where objectives are met needs some: give limits in slo.")
    chosen = list(keys) or swept[:2]
    points = _means(table)
    ratios = _ratios(points, limits_ms)
    if len(chosen) == 1:
        return _curves(points, ratios, chosen[0])
    return _cells(points, ratios, chosen[0], chosen[1])


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """One row per point: means over its replicates; met or overloaded if any replicate is not."""
    done = table[table["status"] == "ok"]
    if not len(done):
        raise InputError("no point of the sweep has a result to plot.")
    grouped = done.groupby("point", sort=True)
    figures = [
        name for name in done.columns
        if name in (USER, GPU) or name.startswith("slo.")
    ]  # fmt: skip
    out = grouped[figures].mean()
    for key in [*swept_keys(table), "pareto"]:
        out[key] = grouped[key].first()
    out["overloaded"] = grouped["state"].agg(lambda states: OVERLOADED in set(states))
    out["slo_met"] = grouped["slo_met"].min()
    return out


def _ratios(points: pd.DataFrame, limits_ms: Mapping[str, float]) -> pd.DataFrame:
    """Each objective's value over its limit."""
    out = points[[]].copy()
    for name, limit in limits_ms.items():
        out[name] = points[f"slo.{name}"] / limit
    return out


def _worst(points: pd.DataFrame, ratios: pd.DataFrame) -> pd.Series[float]:
    """The largest ratio of each point; an overloaded one, whose backlog grows, meets nothing."""
    worst = ratios.max(axis=1)
    return worst.where(~points["overloaded"], worst.clip(lower=BARELY_MISSED))


def _curves(points: pd.DataFrame, ratios: pd.DataFrame, key: str) -> Figure:
    worst = _worst(points, ratios)
    rows = points.loc[worst.groupby(points[key]).idxmin()].sort_values(key)
    figure = style.new_page(8, 5)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    place = np.arange(len(rows))
    met = (worst[rows.index] <= 1).to_numpy()
    for index, name in enumerate(ratios.columns):
        colour = style.SERIES[index % len(style.SERIES)]
        top.plot(place, ratios.loc[rows.index, name], "o-", color=colour, markersize=4, label=name)
    top.axhline(1, color=style.INK, linewidth=1, linestyle="--")
    top.set_yscale("log")
    _multiples(top)
    for axes in (top, bottom):
        for k in place[met]:
            axes.axvspan(k - 0.5, k + 0.5, color=MET, alpha=0.12, linewidth=0)
        style.quiet(axes)
    bottom.plot(place, rows[GPU], "o-", color=style.DECODE, markersize=4)
    bottom.set_ylim(bottom=0)
    bottom.set_xlim(-0.5, len(rows) - 0.5)
    bottom.set_xticks(place, [_short(value) for value in rows[key]])
    style.label(top, y="objective / its limit")
    style.label(bottom, x=key, y="output tokens/s\nper GPU")
    style.title(top, "Where every objective is met", "shaded: all at or below their limit")
    top.legend(frameon=False, fontsize=style.FONT_SIZE, labelcolor=style.INK)
    return figure


def _cells(points: pd.DataFrame, ratios: pd.DataFrame, across: str, up: str) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap, SymLogNorm

    worst = _worst(points, ratios)
    best = worst.groupby([points[up], points[across]]).idxmin()
    grid = best.unstack()
    figure = style.new_page(1.8 + 0.95 * max(len(grid.columns), 5), 1.2 + 0.5 * max(len(grid), 4))
    axes = figure.subplots()
    values = np.full(grid.shape, np.nan)
    for i, j in np.argwhere(grid.notna().to_numpy()):
        point = grid.iloc[i, j]
        values[i, j] = np.log2(worst[point])
        culprit = ratios.loc[point].idxmax().removesuffix("_ms").replace("_", " ")
        if worst[point] == BARELY_MISSED:
            culprit = "overloaded"
        times = f"{worst[point]:.2g}" if worst[point] < 99.5 else f"{worst[point]:,.0f}"
        axes.text(
            j, i, f"×{times}\n{culprit}", ha="center", va="center",
            fontsize=style.FONT_SIZE - 2, color=style.INK,
        )  # fmt: skip
    colours = LinearSegmentedColormap.from_list("met or missed", [MET, "#ffffff", MISSED])
    axes.imshow(
        values, cmap=colours, norm=SymLogNorm(0.25, vmin=-3, vmax=3), alpha=0.6, origin="lower",
        aspect="auto",
    )  # fmt: skip
    axes.set_xticks(range(len(grid.columns)), [_short(value) for value in grid.columns])
    axes.set_yticks(range(len(grid)), [_short(value) for value in grid.index])
    _outline(axes, values <= 0)
    style.quiet(axes, grid=None)
    style.label(axes, x=across, y=up)
    style.title(axes, "Worst objective over its limit", "outlined: every objective is met")
    return figure


def _outline(axes: Axes, met: np.ndarray[Any, Any]) -> None:
    """The border between cells that are met and the rest."""
    padded = np.pad(met, 1)
    sides: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for i, j in np.argwhere(met):
        corner = {"left": j - 0.5, "right": j + 0.5, "low": i - 0.5, "high": i + 0.5}
        low, high, left, right = (corner[k] for k in ("low", "high", "left", "right"))
        neighbours = padded[i : i + 3, j : j + 3]
        sides += [((left, left), (low, high))] if not neighbours[1, 0] else []
        sides += [((right, right), (low, high))] if not neighbours[1, 2] else []
        sides += [((left, right), (low, low))] if not neighbours[0, 1] else []
        sides += [((left, right), (high, high))] if not neighbours[2, 1] else []
    for x, y in sides:
        axes.plot(x, y, color=style.INK, linewidth=1.6, solid_capstyle="round", clip_on=False)


def _multiples(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as multiples."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)
