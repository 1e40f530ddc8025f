"""Two pools resolved: each like a cluster of its own, and the link between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cost_models.catalog import Gpu
from simulator.errors import InputError
from simulator.scenario.pools import POOLS, SECTION_OF, KvTransferSpec, pool_scenario
from simulator.scenario.resolved import Resolved
from simulator.scenario.scenario import Scenario

# What both pools have in common, so that it is filled in where it is for any cluster.
SHARED = (
    ("cluster", "engine_version"),
    ("scheduler", "async_scheduling"),
    ("scheduler", "watermark"),
    ("scheduler", "scheduler_reserve_full_isl"),
    ("kv_cache", "block_size"),
    ("kv_cache", "max_model_len"),
)
# An order of magnitude for who measures nothing of his own.
UNMEASURED = (
    "cluster.pools.kv_transfer.latency_s: 0, and bytes at the link's full rate; a published "
    "handover of 5,000 tokens took 105 ms with blocks of 16 tokens and 47 ms with blocks of 64 "
    "(vllm#50913, NIXL within a node), so give bytes_per_s or latency_s as you measure them"
)


def resolve_pools(scenario: Scenario, resolve_one: Callable[[Scenario], Resolved]) -> Resolved:
    """Fill what a scenario with pools leaves open.

    Both pools take requests of the same length: the shorter of what fits in each, where the
    scenario does not say.

    Parameters
    ----------
    resolve_one : resolves a scenario without pools.

    Returns
    -------
    The decode pool's facts, with both pools in `pools`.
    """
    pools = {name: _resolve_pool(scenario, name, resolve_one) for name in POOLS}
    length = min(pool.max_model_len for pool in pools.values())
    if any(pool.max_model_len > length for pool in pools.values()):
        shorter = scenario.with_overrides([f"kv_cache.max_model_len={length}"])
        note = f"kv_cache.max_model_len: {length}, what fits in both pools"
        found = resolve_pools(shorter, resolve_one)
        return replace(found, notes=[*found.notes, note])
    spec = scenario.cluster.pools
    assert spec is not None
    rate = link_bytes_per_s(spec.kv_transfer, [pool.gpu for pool in pools.values()])
    notes = _notes(pools)
    if spec.kv_transfer.bytes_per_s is None:
        notes.append(
            f"cluster.pools.kv_transfer.bytes_per_s: {rate:g}, the catalogue's for the "
            f"{spec.kv_transfer.link} of {' and '.join(_gpus(pools))}"
        )
        if spec.kv_transfer.latency_s == 0:
            notes.append(UNMEASURED)
    filled = Scenario.from_mapping(_filled(scenario, pools, rate), scenario.base_dir)
    return replace(pools["decode"], scenario=filled, pools=pools, notes=notes)


def _resolve_pool(
    scenario: Scenario, name: str, resolve_one: Callable[[Scenario], Resolved]
) -> Resolved:
    """One pool; what is wrong with it is said of it by name."""
    try:
        return resolve_one(pool_scenario(scenario, name))
    except InputError as error:
        raise InputError(f"cluster.pools.{name}: {error}") from None


def _filled(scenario: Scenario, pools: dict[str, Resolved], rate: float) -> dict[str, Any]:
    """The scenario's mapping with every null filled in; what both pools have alike, once."""
    data = scenario.to_mapping()
    one = pools["decode"].scenario.to_mapping()
    for section, key in SHARED:
        data[section][key] = one[section][key]
    known = {name: pool.scenario.to_mapping() for name, pool in pools.items()}
    for key, section in SECTION_OF.items():
        values = {name: known[name][section].get(key) for name in pools}
        alike = len(set(values.values())) == 1 and key != "replicas"
        if alike:
            data[section][key] = values["decode"]
        for name, value in values.items():
            data["cluster"]["pools"][name][key] = None if alike else value
    data["cluster"]["pools"]["kv_transfer"]["bytes_per_s"] = rate
    return data


def _notes(pools: dict[str, Resolved]) -> list[str]:
    """What was taken for both pools alike, then what only one of them has."""
    ours = [pool.notes for pool in pools.values()]
    common = [note for note in ours[0] if note in ours[1]]
    return common + [
        f"{name} pool: {note}"
        for name, pool in pools.items()
        for note in pool.notes
        if note not in common
    ]


def _gpus(pools: dict[str, Resolved]) -> list[str]:
    return sorted({pool.gpu.name for pool in pools.values()})


def link_bytes_per_s(spec: KvTransferSpec, gpus: list[Gpu]) -> float:
    """Rate of the slower end of a transfer between one GPU of each pool.

    Raises
    ------
    InputError
        A GPU of the user's own whose file does not have the rate.
    """
    if spec.bytes_per_s is not None:
        return spec.bytes_per_s
    if spec.link == "node":
        return min(gpu.link_bytes_per_s for gpu in gpus)
    for gpu in gpus:
        if gpu.network_bytes_per_s is None:
            raise InputError(
                f"cluster.pools.kv_transfer.link is network, but {gpu.name} has no "
                "network_bytes_per_s; give it there, or cluster.pools.kv_transfer.bytes_per_s"
            )
    return min(gpu.network_bytes_per_s for gpu in gpus if gpu.network_bytes_per_s is not None)
