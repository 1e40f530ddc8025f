"""Energy of the GPUs, estimated from their board power and what they do.

No power is measured here.  A GPU draws a share of its board power (TDP) that follows what it
does at the moment:

- computing prompts: all of it.  Prompt phases reach the board's limit (Patel et al.,
  "Characterizing Power Management Opportunities for LLMs in the Cloud", ASPLOS 2024).
- decoding: a straight line in the logarithm of the batch through two points measured on an
  H100 of 700 W, 300 W for one sequence and 600 W for 128 (ML.ENERGY benchmark 3.0).
- nothing, or waiting for the host: 15 %; measured 60 to 75 W of 400 (A100) and 700 (H100).

Processors, network and cooling are in none of this; `cluster.pue` multiplies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.metrics.cost.parts import Part
from simulator.metrics.latency import Population
from simulator.metrics.steps import in_window

if TYPE_CHECKING:
    from simulator.scenario import ClusterSpec

IDLE = 0.15
PREFILL = 1.0
DECODE_OF_ONE, DECODE_OF_MANY, MANY = 300 / 700, 600 / 700, 128
JOULES_PER_KWH = 3.6e6


def energy_figures(
    parts: list[Part], cluster: ClusterSpec, who: Population, tokens_out: int
) -> dict[str, Any]:
    """Energy and carbon of all GPUs while they are paid for."""
    board_j = sum(_board_joules(part, who) for part in parts)
    gpu_s = sum(part.gpu_s(who) for part in parts)
    kwh = board_j * cluster.pue / JOULES_PER_KWH
    grid = cluster.grid_co2_g_per_kwh
    return {
        "mean_gpu_power_w": board_j / gpu_s if gpu_s > 0 else float("nan"),
        "energy_kwh": kwh,
        "energy_wh_per_million_output_tokens": kwh * 1e9 / tokens_out
        if tokens_out
        else float("nan"),
        "co2_kg": None if grid is None else kwh * grid / 1e3,
    }


def _board_joules(part: Part, who: Population) -> float:
    """What the boards of equal replicas draw."""
    time, steps = part.time, part.recording.steps
    rows = in_window(steps, who)
    decode_s, prefill_s = (time.weights_s + time.kv_s)[rows], time.prefill_s[rows]
    batch = np.clip(steps.decode_seqs[rows], 1, MANY)
    share = DECODE_OF_ONE + (DECODE_OF_MANY - DECODE_OF_ONE) * np.log(batch) / np.log(MANY)
    busy_s = float(decode_s.sum() + prefill_s.sum())
    at_full_power_s = float((share * decode_s).sum()) + PREFILL * float(prefill_s.sum())
    each = part.resolved.scenario.cluster.split.engine_gpus
    idle_s = max(part.gpu_s(who) - each * busy_s, 0.0)
    return part.resolved.gpu.tdp_w * (each * at_full_power_s + IDLE * idle_s)
