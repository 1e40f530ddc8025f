"""The bill of a run, and what it comes to per million tokens at the real utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.metrics.cost.energy import energy_figures
from simulator.metrics.cost.reservation import reservation_figures
from simulator.metrics.cost.step_time import StepTime
from simulator.metrics.latency import Population
from simulator.metrics.leases import overlap_s, paid
from simulator.metrics.steps import in_window
from simulator.recording import Recording

if TYPE_CHECKING:
    from simulator.scenario import Resolved


def cost_figures(
    recording: Recording,
    resolved: Resolved,
    time: StepTime,
    who: Population,
    tokens_in: int,
    tokens_out: int,
) -> dict[str, Any]:
    """Money and energy of the benchmark's duration, idle time included.

    Parameters
    ----------
    time : of all steps.
    tokens_in, tokens_out : prompt and output tokens of the requests that completed.

    Returns
    -------
    Keys of summary.json.  Each ``cost_per_million_*`` divides the whole bill by its tokens;
    ``price_per_million_input_tokens`` and ``..._output_tokens`` are the two prices that
    together just pay it: prompts bear the time that their computing adds to steps, output
    tokens the rest, idle time in proportion.
    """
    cluster = resolved.scenario.cluster
    price = cluster.price_per_gpu_hour
    if price is None:
        price = resolved.gpu.price_per_gpu_hour
    gpu_s = cluster.split.engine_gpus * overlap_s(
        paid(recording), who.start_s, who.start_s + who.duration_s
    )
    dollars = price * gpu_s / 3600
    spent = time.by_purpose()[:, in_window(recording.steps, who)].sum(axis=1)
    prompts = float(spent[0] / spent.sum()) if spent.sum() > 0 else float("nan")
    return (
        {
            "num_gpus": cluster.num_gpus,
            "gpu_hours": gpu_s / 3600,
            "price_per_gpu_hour": price,
            "cost": dollars,
        }
        | reservation_figures(recording, resolved, who, price)
        | per_million(dollars, tokens_in, tokens_out)
        | {
            "prompts_share_of_cost": prompts,
            "price_per_million_input_tokens": _each(dollars * prompts, tokens_in),
            "price_per_million_output_tokens": _each(dollars * (1 - prompts), tokens_out),
        }
        | energy_figures(recording, resolved, time, who, gpu_s, tokens_out)
    )


def per_million(dollars: float, tokens_in: int, tokens_out: int) -> dict[str, float]:
    """The whole of `dollars` per million prompt, output and total tokens."""
    return {
        "cost_per_million_input_tokens": _each(dollars, tokens_in),
        "cost_per_million_output_tokens": _each(dollars, tokens_out),
        "cost_per_million_total_tokens": _each(dollars, tokens_in + tokens_out),
    }


def _each(dollars: float, tokens: int) -> float:
    return dollars / tokens * 1e6 if tokens else float("nan")
