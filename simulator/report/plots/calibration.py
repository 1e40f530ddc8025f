"""A picture of a calibration: each measured kernel over what was fitted to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.report.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cost_models.calibration import Calibration
    from cost_models.importers.profile import Profile

MOST_DOTS = 1500  # of each regime; the rest only hide them


def plot_calibration(profile: Profile, fitted: Calibration) -> Figure:
    """Measured over fitted time of each row, one panel an operation, one colour a regime.

    The line is where both are equal; the legend has each regime's mean error and bias.
    """
    from cost_models.fitted import regimes

    operations: dict[str, dict[str, list[tuple[np.ndarray, np.ndarray]]]] = {}
    for regime in regimes(profile, fitted):
        of = operations.setdefault(regime.operation, {})
        of.setdefault(regime.name, []).append((regime.measured_s, regime.fitted_s))
    figure = style.new_page(4.0 * len(operations), 3.8)
    for axes, (operation, by_name) in zip(
        figure.subplots(1, len(operations), squeeze=False)[0], operations.items(), strict=True
    ):
        for index, (name, parts) in enumerate(by_name.items()):
            measured, found = (np.concatenate(column) * 1e6 for column in zip(*parts, strict=True))
            error = found / measured - 1
            every = max(1, len(measured) // MOST_DOTS)
            axes.plot(
                found[::every],
                measured[::every],
                ".",
                markersize=3,
                alpha=0.5,
                color=style.SERIES[index],
                label=f"{name}: {np.abs(error).mean():.0%}, bias {error.mean():+.0%}",
            )
        ends = axes.get_xlim()
        axes.plot(ends, ends, color=style.FAINT, linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="fitted, µs", ylabel="measured, µs")
        axes.set_title(operation, loc="left", fontsize=9)
        axes.legend(frameon=False, fontsize=7, markerscale=3)
        style.quiet(axes)
    return figure
