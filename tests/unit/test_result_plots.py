"""A result draws what `simulator.report.plots` draws of it."""

from __future__ import annotations

import io

import pytest

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.report import plots


def png(figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


@pytest.mark.parametrize(
    "name", ["plot_timeline", "plot_load", "plot_itl", "plot_latency", "plot_attribution"]
)
def test_method_draws_the_plot_of_that_name(name):
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    assert png(getattr(result, name)()) == png(getattr(plots, name)(result))


def test_timeline_shows_the_window_asked_for():
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    assert result.plot_timeline(window=(1.0, 2.0)).axes[0].get_xlim() == (1.0, 2.0)


RESERVING = ["workload.num_requests=40", "workload.max_tokens=400", "kv_cache.num_gpu_blocks=300"]


@pytest.mark.parametrize("allocator", ["contiguous", "contiguous_oracle", "buddy"])
def test_memory_map_has_a_bar_for_each_reservation(allocator):
    overrides = [*RESERVING, f"kv_cache.allocator={allocator}", "kv_cache.max_model_len=2048"]
    result = simulate(Scenario.from_yaml("seed-linear", overrides))
    bars = result.plot_memory_map(window=(0.0, result.recording.end_s)).axes[0].collections
    assert [len(layer.get_paths()) for layer in bars] == [40] * 3  # whole, reserved, filled
    for i, path in enumerate(bars[0].get_paths()):
        low, high = path.vertices[:, 1].min(), path.vertices[:, 1].max()
        held = result.recording.reservations
        assert (low, high) == (held.start_block[i], held.start_block[i] + held.blocks[i])


def test_paged_blocks_have_no_map():
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=5"]))
    with pytest.raises(InputError, match=r"kv_cache.allocator is paged, .* contiguous_oracle"):
        result.plot_memory_map()
