"""What a run costs: the bill, who caused how much of it, energy and carbon."""

from simulator.metrics.cost.bill import cost_figures, per_million
from simulator.metrics.cost.parts import Part, parts_of, shares_of_classes
from simulator.metrics.cost.shares import class_shares
from simulator.metrics.cost.step_time import StepTime, step_time_of

__all__ = [
    "Part",
    "StepTime",
    "class_shares",
    "cost_figures",
    "parts_of",
    "per_million",
    "shares_of_classes",
    "step_time_of",
]
