"""Pictures of a step's price: its growth with the batch, and its operations on the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.report.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cost_models import StepCost, StepTime
    from cost_models.catalog import Gpu, Model

LARGEST_BATCH = 512


def plot_cost(
    price: StepCost, step: StepTime, model: Model, gpu: Gpu, tp: int, context: int
) -> Figure:
    """Step time over the batch with its two limits, and the step's operations on the roofline.

    Parameters
    ----------
    price, step : the cost model, and the step whose operations are drawn.
    model, gpu, tp : what it is the price of.
    context : of each decode in the left picture, tokens.
    """
    figure = style.new_page(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    _batches(left, price, model, gpu, tp, context)
    _roofline(right, step, model, gpu)
    return figure


def _batches(axes: Axes, price: StepCost, model: Model, gpu: Gpu, tp: int, context: int) -> None:
    batches = np.unique(np.geomspace(1, LARGEST_BATCH, 60).astype(int))
    steps = [price.step([context] * int(batch)) for batch in batches]
    total_ms = np.array([step.total_s for step in steps]) * 1e3
    gpu_ms = np.array([step.gpu_s for step in steps]) * 1e3
    axes.plot(batches, total_ms, color=style.SERIES[0], label="step")
    axes.plot(batches, gpu_ms, color=style.SERIES[0], linestyle=":", label="GPU alone")
    weights_s = model.weight_bytes(tp) / gpu.memory_bandwidth_bytes_per_s
    cache_s = model.kv_bytes_per_token(tp) * context / gpu.memory_bandwidth_bytes_per_s
    flops = (model.linear_flops_per_token + model.lm_head_flops) / tp
    token_s = flops / gpu.peak_flops(model.weight_dtype)
    axes.plot(
        batches,
        (weights_s + batches * cache_s) * 1e3,
        color=style.SERIES[1],
        linestyle="--",
        label="T_mem: weights and KV at peak bandwidth",
    )
    axes.plot(
        batches,
        batches * token_s * 1e3,
        color=style.SERIES[2],
        linestyle="--",
        label="T_flop: products at peak FLOP/s",
    )
    axes.set(xscale="log", yscale="log", xlabel="sequences that decode (B)", ylabel="ms")
    axes.set_ylim(bottom=min(total_ms.min(), weights_s * 1e3) / 4)
    axes.set_title(f"step time over the batch, {context} tokens each", loc="left", fontsize=9)
    axes.legend(frameon=False, fontsize=7)
    style.quiet(axes)


def _roofline(axes: Axes, step: StepTime, model: Model, gpu: Gpu) -> None:
    """FLOP/s achieved over FLOPs per byte; the area of a dot is its share of the step."""
    peak, bandwidth = gpu.peak_flops(model.weight_dtype), gpu.memory_bandwidth_bytes_per_s
    ops = [op for op in step.ops if op.flops and op.bytes and op.seconds > 0]
    intensity = np.array([(op.flops or 0.0) / (op.bytes or 1.0) for op in ops])
    turn = peak / bandwidth
    x = np.geomspace(min([0.5, *intensity]) / 2, max([4 * turn, *intensity]) * 2, 200)
    axes.plot(x, np.minimum(peak, x * bandwidth) / 1e12, color=style.FAINT)
    for index, op in enumerate(ops):
        rate = (op.flops or 0.0) / op.seconds / 1e12
        share = op.seconds / step.total_s
        colour = style.SERIES[index % len(style.SERIES)]
        axes.scatter(intensity[index], rate, s=20 + 400 * share, color=colour, alpha=0.7)
        axes.plot([], [], "o", color=colour, label=f"{op.name}, {share:.0%} of the step")
    axes.legend(frameon=False, fontsize=7, loc="lower right")
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte", ylabel="TFLOP/s")
    axes.set_title(
        f"the step's operations under {gpu.name}'s {model.weight_dtype} roof",
        loc="left",
        fontsize=9,
    )
    style.quiet(axes)
