"""The bill of a run, and what it comes to per million tokens at the real utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics.cost.energy import energy_figures
from simulator.metrics.cost.parts import Part
from simulator.metrics.cost.reservation import reservation_figures
from simulator.metrics.latency import Population

if TYPE_CHECKING:
    from simulator.scenario import Resolved

RESERVED = ("reserved_price_per_gpu_hour", "reserved_replicas", "cost_with_reserved")


def cost_figures(
    parts: list[Part],
    resolved: Resolved,
    who: Population,
    tokens_in: int,
    tokens_out: int,
) -> dict[str, Any]:
    """Money and energy of the benchmark's duration, idle time included.

    Parameters
    ----------
    parts : all replicas, from `parts_of`.
    tokens_in, tokens_out : prompt and output tokens of the requests that completed.

    Returns
    -------
    Keys of summary.json.  Each ``cost_per_million_*`` divides the whole bill by its tokens;
    ``price_per_million_input_tokens`` and ``..._output_tokens`` are the two prices that
    together just pay it: prompts bear the time that their computing adds to steps, output
    tokens the rest, idle time in proportion.
    """
    gpu_s = sum(part.gpu_s(who) for part in parts)
    dollars = sum(part.price * part.gpu_s(who) / 3600 for part in parts)
    spent = np.sum([part.spent(who) for part in parts], axis=0)
    prompts = float(spent[0] / spent.sum()) if spent.sum() > 0 else float("nan")
    return (
        {
            "num_gpus": resolved.num_gpus,
            "mean_gpus": gpu_s / who.duration_s if who.duration_s > 0 else resolved.num_gpus,
            "gpu_hours": gpu_s / 3600,
            "price_per_gpu_hour": resolved.price_per_gpu_hour,
            "cost": dollars,
        }
        | _reservations(parts, resolved, who)
        | per_million(dollars, tokens_in, tokens_out)
        | {
            "prompts_share_of_cost": prompts,
            "price_per_million_input_tokens": _each(dollars * prompts, tokens_in),
            "price_per_million_output_tokens": _each(dollars * (1 - prompts), tokens_out),
        }
        | energy_figures(parts, resolved.scenario.cluster, who, tokens_out)
    )


def _reservations(parts: list[Part], resolved: Resolved, who: Population) -> dict[str, Any]:
    """What to reserve, of each part by itself; nothing where not all reserved prices are known."""
    each = [reservation_figures(p.recording, p.resolved, who, p.price) for p in parts]
    if any(one["reserved_replicas"] is None for one in each):
        each = [one | dict.fromkeys(RESERVED) for one in each]
        return each[0] | {"cost_of_fixed_peak": sum(one["cost_of_fixed_peak"] for one in each)}
    total = {key: sum(one[key] for one in each) for key in each[0]}
    dollars = sum(
        one["reserved_price_per_gpu_hour"] * part.resolved.num_gpus
        for one, part in zip(each, parts, strict=True)
    )
    return total | {"reserved_price_per_gpu_hour": dollars / resolved.num_gpus}


def per_million(dollars: float, tokens_in: int, tokens_out: int) -> dict[str, float]:
    """The whole of `dollars` per million prompt, output and total tokens."""
    return {
        "cost_per_million_input_tokens": _each(dollars, tokens_in),
        "cost_per_million_output_tokens": _each(dollars, tokens_out),
        "cost_per_million_total_tokens": _each(dollars, tokens_in + tokens_out),
    }


def _each(dollars: float, tokens: int) -> float:
    return dollars / tokens * 1e6 if tokens else float("nan")
