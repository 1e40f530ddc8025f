"""Everything that happens in simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.planning.capacity import find_capacity
    from simulator.planning.compare import compare
    from simulator.planning.sweep import sweep
    from simulator.scenario import Scenario
    from simulator.simulation import Result, simulate

__all__ = ["Result", "Scenario", "compare", "find_capacity", "simulate", "sweep"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``servecast --help`` does not load the engine."""
    if name == "Scenario":
        from simulator.scenario import Scenario

        return Scenario
    if name == "compare":
        from simulator.planning.compare import compare

        return compare
    if name == "find_capacity":
        from simulator.planning.capacity import find_capacity

        return find_capacity
    if name == "sweep":
        from simulator.planning.sweep import sweep

        return sweep
    if name in ("Result", "simulate"):
        from simulator import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module 'simulator' has no attribute {name!r}")
