"""Everything that happens in seconds per step.

``from cost_models import StepCost`` is the way in.  The import is lazy: commands that
print a catalogue or an error should not wait for NumPy and Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cost_models.step_cost import StepCost, StepTime

__all__ = ["StepCost", "StepTime"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from cost_models import step_cost

        return getattr(step_cost, name)
    raise AttributeError(f"module 'cost_models' has no attribute {name!r}")
