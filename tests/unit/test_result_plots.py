"""A result draws what `simulator.report.plots` draws of it."""

from __future__ import annotations

import io

import pytest

from simulator import Scenario, simulate
from simulator.report import plots


def png(figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


@pytest.mark.parametrize("name", ["plot_timeline", "plot_load", "plot_itl", "plot_latency"])
def test_method_draws_the_plot_of_that_name(name):
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    assert png(getattr(result, name)()) == png(getattr(plots, name)(result))


def test_timeline_shows_the_window_asked_for():
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    assert result.plot_timeline(window=(1.0, 2.0)).axes[0].get_xlim() == (1.0, 2.0)
