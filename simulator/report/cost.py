"""Money, energy and who causes them, as lines of the text report and rows of the page."""

from __future__ import annotations

from typing import Any

from simulator.report.block import header, line, number, wrapped
from simulator.words import counted

Pairs = list[tuple[str, Any]]

CLASS_COSTS = ("% of bill", "$/M input", "$/M output", "$/M total")


def money(summary: dict[str, Any]) -> Pairs:
    """Prices and what the run comes to."""
    return [
        *_replicas(summary),
        ("Price ($/GPU/h)", float(summary["price_per_gpu_hour"])),
        ("GPU-hours", summary["gpu_hours"]),
        ("Idle (% of the bill)", (1 - summary["utilisation"]) * 100),
        ("Cost ($/M input tokens)", summary["cost_per_million_input_tokens"]),
        ("Cost ($/M output tokens)", summary["cost_per_million_output_tokens"]),
        ("Cost ($/M total tokens)", summary["cost_per_million_total_tokens"]),
        ("Input tokens apart ($/M)", summary["price_per_million_input_tokens"]),
        ("Output tokens apart ($/M)", summary["price_per_million_output_tokens"]),
    ]


def _replicas(summary: dict[str, Any]) -> Pairs:
    """What an autoscaler did; nothing without one."""
    if summary["replica_start_s"] is None:
        return []
    return [
        ("Replicas, mean", summary["mean_replicas"]),
        ("Replicas, peak", summary["peak_replicas"]),
        ("Replicas ordered, drained", f"{summary['scale_ups']}, {summary['scale_downs']}"),
        ("Start of a replica (s)", summary["replica_start_s"]),
        ("Cost ($)", summary["cost"]),
        ("Cost of a fixed fleet of the peak ($)", summary["cost_of_fixed_peak"]),
    ]


def energy(summary: dict[str, Any]) -> Pairs:
    """What the GPUs draw."""
    rows: Pairs = [
        ("Power, estimate (W per GPU)", summary["mean_gpu_power_w"]),
        ("Energy, estimate (Wh/M output tokens)", summary["energy_wh_per_million_output_tokens"]),
    ]
    if summary["co2_kg"] is not None:
        tokens = summary["total_output_tokens"]
        per_million_g = summary["co2_kg"] * 1e9 / tokens if tokens else None
        rows.append(("CO2, estimate (g/M output tokens)", per_million_g))
    return rows


def cost_lines(summary: dict[str, Any]) -> list[str]:
    """Lines for the text report."""
    out = [line(f"{title}:", value) for title, value in money(summary) + energy(summary)]
    sentence = reservation(summary)
    if sentence:
        out += wrapped(sentence, bullet="- ")
    return out + _classes(summary)


def reservation(summary: dict[str, Any]) -> str:
    """When to reserve GPUs rather than take them on demand; empty where nobody knows a price."""
    reserved, demand = summary["reserved_price_per_gpu_hour"], summary["price_per_gpu_hour"]
    if reserved is None:
        return ""
    if reserved >= demand:
        return (
            f"Reserved at ${reserved:g}/h, a GPU is never cheaper than on demand at ${demand:g}/h."
        )
    sentence = (
        f"A GPU reserved at ${reserved:g}/h is cheaper than one on demand at ${demand:g}/h when "
        f"it is needed more than {reserved / demand:.0%} of the time"
    )
    if not summary["cost"] > 0:
        return sentence + "."
    share = summary["cost_with_reserved"] / summary["cost"]
    count, peak = summary["reserved_replicas"], summary["peak_replicas"]
    return (
        f"{sentence}: with {count} of {counted(peak, 'replica')} reserved, output tokens cost "
        f"${number(summary['cost_per_million_output_tokens'] * share)}/M."
    )


def _classes(summary: dict[str, Any]) -> list[str]:
    """What each class causes; nothing without several classes."""
    rows = class_costs(summary)
    if not rows:
        return []
    width = max(len(name) for name, *_ in rows) + 2
    out = [
        header("Cost by class"),
        " " * width + "".join(f"{column:>12}" for column in CLASS_COSTS),
    ]
    for name, *values in rows:
        out.append(f"{name:<{width}}" + "".join(f"{number(value):>12}" for value in values))
    return out


def class_costs(summary: dict[str, Any]) -> list[tuple[str, float, float, float, float]]:
    """A row for each class, with the columns `CLASS_COSTS`; empty without several."""
    return [
        (
            name,
            one["cost_share"] * 100,
            one["cost_per_million_input_tokens"],
            one["cost_per_million_output_tokens"],
            one["cost_per_million_total_tokens"],
        )
        for name, one in summary["classes"].items()
        if "cost_share" in one
    ]
