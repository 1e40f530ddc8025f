"""Step times that are all off by the same factor: how much an answer hangs on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cost_models.kernel import CostTables
from cost_models.step_cost import Batch, CostForm, OpTime, StepCost


class ScaledForm:
    """Another model of cost with every time multiplied by `factor`, host time included."""

    def __init__(self, form: CostForm, factor: float):
        self.form, self.factor = form, factor

    @property
    def provenance(self) -> str:
        """That of the other, and the factor."""
        return f"every step x {self.factor:g} (cost_model.time_scale) of: {self.form.provenance}"

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """All entries are seconds, or seconds per something."""
        return CostTables(
            *(array * self.factor for array in self.form.tables(max_tokens, max_seqs))
        )

    def apart(
        self, max_tokens: int, max_seqs: int
    ) -> tuple[CostTables, NDArray[np.float64], NDArray[np.float64]]:
        """Those of the other, where it tells them apart."""
        own, even_s, total_s = StepCost(self.form).apart(max_tokens, max_seqs)
        scaled = CostTables(*(array * self.factor for array in own))
        return scaled, even_s * self.factor, total_s * self.factor

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        """The step, operation by operation."""
        return tuple(replace(op, seconds=op.seconds * self.factor) for op in self.form.ops(batch))
