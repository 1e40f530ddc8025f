"""The linear form: a constant, a price per token and a price per sequence.

Right within a few per cent for one configuration that decodes at near-constant context,
12-56 % off over mixed work: it knows no context, and it adds memory and compute where a
GPU overlaps them.  It is the limit in which queueing theory has closed forms.
"""

from __future__ import annotations

import math

import numpy as np

from cost_models import kernel
from cost_models.errors import InputError
from cost_models.kernel import CostTables
from cost_models.step_cost import Batch, OpTime


class LinearForm:
    """``t_mem_s + tokens·t_flop_s_per_token + sequences·t_seq_s``, added in that order."""

    def __init__(self, t_mem_s: float, t_flop_s_per_token: float, t_seq_s: float = 0.0):
        constants = {
            "t_mem_s": t_mem_s,
            "t_flop_s_per_token": t_flop_s_per_token,
            "t_seq_s": t_seq_s,
        }
        for name, value in constants.items():
            if not (math.isfinite(value) and value >= 0):
                raise InputError(
                    f"cost_model.{name}: {value} is not a time; give seconds, 0 or more."
                )
        if t_mem_s + t_flop_s_per_token + t_seq_s <= 0:
            raise InputError(
                "cost_model: t_mem_s, t_flop_s_per_token and t_seq_s are all 0, so that steps "
                "would take no time; give at least one above 0."
            )
        self.t_mem_s = float(t_mem_s)
        self.t_flop_s_per_token = float(t_flop_s_per_token)
        self.t_seq_s = float(t_seq_s)

    @property
    def provenance(self) -> str:
        """The constants."""
        return (
            f"linear: {self.t_mem_s:g} s + {self.t_flop_s_per_token:g} s/token + "
            f"{self.t_seq_s:g} s/sequence, given; error not measured"
        )

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """Tables of the two sums; beyond their ends the same arithmetic goes on."""
        coef = np.zeros(kernel.NUM_COEF)
        coef[kernel.TOKENS_BASE] = self.t_mem_s
        coef[kernel.TOKENS_SLOPE] = self.t_flop_s_per_token
        coef[kernel.SEQS_SLOPE] = self.t_seq_s
        return CostTables(
            tokens_s=self.t_mem_s
            + np.arange(max_tokens + 1, dtype=np.float64) * self.t_flop_s_per_token,
            decode_tokens_s=np.zeros(0),
            logits_s=np.arange(max_seqs + 1, dtype=np.float64) * self.t_seq_s,
            decode_attention_s=np.zeros((0, 0)),
            coef=coef,
        )

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        """The three terms."""
        return (
            OpTime("memory (t_mem_s)", self.t_mem_s, source="given"),
            OpTime(
                "compute (t_flop_s_per_token)",
                batch.tokens * self.t_flop_s_per_token,
                source="given",
            ),
            OpTime("sequences (t_seq_s)", batch.scheduled_seqs * self.t_seq_s, source="given"),
        )
