"""A scenario at many points: grids and samples of any keys, with replicates.

The way of a sweep: axes become `points`, checked and addressed as a `plan`, whose runs an
executor simulates (`work`); what became of each is kept in a `store` and put together as
a `table`.
"""

from simulator.planning.sweep.execute import Sweep, run_plan, sweep
from simulator.planning.sweep.plan import Plan, plan
from simulator.planning.sweep.points import Point, Range, Sampling, grid, parse_axes, sample
from simulator.planning.sweep.store import Store

__all__ = [
    "Plan",
    "Point",
    "Range",
    "Sampling",
    "Store",
    "Sweep",
    "grid",
    "parse_axes",
    "plan",
    "run_plan",
    "sample",
    "sweep",
]
