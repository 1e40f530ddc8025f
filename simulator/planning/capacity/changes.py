"""Changes of a system that are worth trying, and what each of them brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from simulator.errors import InputError
from simulator.planning.capacity.solve import greatest_load
from simulator.planning.capacity.system import System
from simulator.scenario import Scenario
from simulator.scenario.combinations import why_not
from simulator.scenario.pools import POOLS

# What a change asks for, the cheapest first.
SETTING, NUMERICS, HARDWARE = "setting", "numerics", "hardware"
WORTHWHILE = 0.05  # relative gain of load
MOST_UTILIZATION = 0.95


@dataclass(frozen=True)
class Change:
    """Keys to set, under a name.

    Attributes
    ----------
    kind : SETTING (restart the engine), NUMERICS (answers may change: try their quality) or
        HARDWARE (another bill).
    """

    name: str
    overrides: tuple[str, ...]
    kind: str = SETTING


@dataclass(frozen=True)
class Tried:
    """A change and the load that it carries.

    Attributes
    ----------
    gain : relative change of the greatest load, in the same replicate.
    dollars_per_hour : what the machines cost then, less what they cost now.
    dollars_per_load : price per hour of one unit of load, relative to now.
    """

    change: Change
    gain: float
    dollars_per_hour: float
    dollars_per_load: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.change.name,
            "set": list(self.change.overrides),
            "kind": self.change.kind,
            "gain": self.gain,
            "dollars_per_hour": self.dollars_per_hour,
        }


def candidates(system: System) -> Iterator[Change]:
    """Changes that could let a system carry more, those of settings first."""
    resolved = system.resolved(0)
    scenario = resolved.scenario
    scheduler, kv_cache = scenario.scheduler, scenario.kv_cache
    seqs, tokens = resolved.max_num_seqs, resolved.max_num_batched_tokens
    for factor in (0.5, 1.5, 2.0):
        count = max(1, int(seqs * factor))
        if count <= tokens or scheduler.policy == "static":
            yield Change(f"max_num_seqs {count}", (f"scheduler.max_num_seqs={count}",))
    if scheduler.policy == "static":
        size = 2 * scheduler.static.batch_size
        yield Change(
            f"static batch of {size}",
            (f"scheduler.static.batch_size={size}", f"scheduler.max_num_seqs={max(size, seqs)}"),
        )
    if scheduler.policy == "chunked_prefill":
        for factor in (0.25, 0.5, 2.0):
            count = int(tokens * factor)
            if count >= seqs:
                key = "scheduler.max_num_batched_tokens"
                yield Change(f"max_num_batched_tokens {count}", (f"{key}={count}",))
    else:
        yield Change("policy chunked_prefill", ("scheduler.policy=chunked_prefill",))
    share = kv_cache.gpu_memory_utilization
    if system.scenario.kv_cache.num_gpu_blocks is None and (share or 1.0) < MOST_UTILIZATION:
        text = f"gpu_memory_utilization={MOST_UTILIZATION:g}"
        yield Change(text.replace("=", " "), (f"kv_cache.{text}",))
    for section, key in (("scheduler", "async_scheduling"), ("kv_cache", "enable_prefix_caching")):
        if not getattr(getattr(scenario, section), key) and why_not(scenario, key) is None:
            yield Change(f"{key} on", (f"{section}.{key}=true",))
    if scenario.cluster.replicas > 1 and scenario.cluster.router == "round_robin":
        yield Change("router least_outstanding", ("cluster.router=least_outstanding",))
    if resolved.model.kv_dtype != "fp8":
        yield Change("KV cache in fp8", ("model.kv_dtype=fp8",), NUMERICS)
    if resolved.model.weight_dtype == "bf16":
        yield Change("weights in fp8", ("model.weight_dtype=fp8",), NUMERICS)
    tp = scenario.cluster.tensor_parallel
    yield Change(f"tensor_parallel {2 * tp}", (f"cluster.tensor_parallel={2 * tp}",), HARDWARE)
    yield from _one_more(scenario)


def _one_more(scenario: Scenario) -> Iterator[Change]:
    """A further replica, in either pool where there are pools."""
    cluster = scenario.cluster
    if cluster.pools is None:
        more = cluster.replicas + 1
        yield Change(f"{more} replicas", (f"cluster.replicas={more}",), HARDWARE)
        return
    for name in POOLS:
        more = getattr(cluster.pools, name).replicas + 1
        key = f"cluster.pools.{name}.replicas"
        yield Change(f"{more} {name} replicas", (f"{key}={more}",), HARDWARE)


def try_change(system: System, change: Change, root: float) -> Tried | None:
    """The gain of a change; None for one that cannot be or brings too little.

    Parameters
    ----------
    root : greatest load of the system in replicate 0, in which the change is judged too:
        both have the same requests, so that the difference is the change's.
    """
    try:
        changed = system.changed(change.overrides)
        if not changed.margin(root * (1 + WORTHWHILE), 0).met:
            return None
        gain = greatest_load(changed, 0, root * 1.2, 1.2) / root - 1
    except InputError:
        return None
    price, before = changed.price_per_hour, system.price_per_hour
    per_load = price / before / (1 + gain) if before else 1 / (1 + gain)
    return Tried(change, gain, price - before, per_load)


def try_changes(system: System, changes: Iterable[Change], root: float) -> list[Tried]:
    """Those that bring something, of the cheapest kind of which there is any.

    A setting costs a restart, other numerics a look at the answers' quality, hardware money:
    the dearer kind is tried only where the cheaper one brings nothing.
    """
    known = list(changes)
    for kind in (SETTING, NUMERICS, HARDWARE):
        tried = [try_change(system, change, root) for change in known if change.kind == kind]
        found = [one for one in tried if one is not None]
        if found:
            return sorted(found, key=lambda one: (one.dollars_per_load, one.dollars_per_hour))
    return []
