"""How much a system carries within its limits, what limits it, and what to change next."""

from simulator.planning.capacity.answer import Capacity, ModelBand
from simulator.planning.capacity.find import find_capacity

__all__ = ["Capacity", "ModelBand", "find_capacity"]
