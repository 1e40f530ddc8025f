"""The work that the benchmarks do, frozen: lengths, rates and the price of a step.

1,024 prompt and 256 output tokens, Poisson arrivals at 70 % of capacity, an 8B model on one
H100.  Step prices are formulas with fixed constants, near the shipped calibration, so that
a new calibration does not change the number of steps that a benchmark runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cost_models import kernel
from cost_models.catalog import Gpu, Model
from cost_models.kernel import CostTables
from cost_models.step_cost import Batch, OpTime
from simulator.scenario import Resolved, Scenario, resolve

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 256

# 70 % of the throughput of a burst of 20,000 requests.
RATE_PER_S = 10.8
RATE_ASYNC_PER_S = 14.8

WEIGHTS_S = 5.2e-3  # 16.1 GB at 3.1 TB/s
TOKEN_S = 2.2e-5  # 15 GFLOP at 680 TFLOP/s
LOGITS_S = 4e-7  # per sequence
CONTEXT_TOKEN_S = 4.7e-8  # 128 KiB of KV cache at 2.8 TB/s
PREFILL_BASE_S, PREFILL_PAIR_S, PREFILL_TOKEN_S = 3e-4, 1.3e-9, 3e-7
HOST_S, HOST_SEQ_S = 1.1e-3, 6.7e-5
HOST_GAP_S = 2e-4  # between steps, when the host works while the GPU does

CONTEXT_KNOTS = 18  # to 2^17 tokens


class FrozenForm:
    """A `cost_models.step_cost.CostForm` of the constants above."""

    provenance = "frozen for benchmarks"

    def __init__(self, async_scheduling: bool):
        self.async_scheduling = async_scheduling

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        tokens = np.arange(max_tokens + 1, dtype=np.float64)
        seqs = np.arange(max_seqs + 1, dtype=np.float64)
        attention_s = np.zeros((max_seqs + 1, CONTEXT_KNOTS + 1))
        context = 2.0 ** np.arange(CONTEXT_KNOTS)
        attention_s[:, :CONTEXT_KNOTS] = CONTEXT_TOKEN_S * seqs[:, None] * context
        coef = np.zeros(kernel.NUM_COEF)
        coef[kernel.TOKENS_SLOPE] = TOKEN_S
        coef[kernel.SEQS_SLOPE] = LOGITS_S
        coef[kernel.PREFILL_BASE] = PREFILL_BASE_S
        coef[kernel.PREFILL_PER_AREA] = PREFILL_PAIR_S
        coef[kernel.PREFILL_PER_TOKEN] = PREFILL_TOKEN_S
        coef[kernel.HOST_BASE] = HOST_S
        coef[kernel.HOST_PER_SEQ] = HOST_SEQ_S
        coef[kernel.HOST_GAP] = HOST_GAP_S if self.async_scheduling else 0.0
        return CostTables(
            tokens_s=(WEIGHTS_S**4 + (tokens * TOKEN_S) ** 4) ** 0.25,
            decode_tokens_s=np.zeros(0),
            logits_s=seqs * LOGITS_S,
            decode_attention_s=attention_s,
            coef=coef,
        )

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        return ()


def synchronous(model: Model, gpu: Gpu, tensor_parallel: int) -> FrozenForm:
    """The scenario's `cost_model`."""
    return FrozenForm(async_scheduling=False)


def asynchronous(model: Model, gpu: Gpu, tensor_parallel: int) -> FrozenForm:
    """The same where the host works while the GPU does."""
    return FrozenForm(async_scheduling=True)


def mapping(
    num_requests: int, *, prefix_caching: bool = False, async_scheduling: bool = False
) -> dict[str, Any]:
    """The scenario, as its file would hold it."""
    rate = RATE_ASYNC_PER_S if async_scheduling else RATE_PER_S
    return {
        "name": "speed",
        "workload": {
            "arrivals": {"process": "poisson", "rate": rate},
            "lengths": {
                "distribution": "fixed",
                "prompt_tokens": PROMPT_TOKENS,
                "output_tokens": OUTPUT_TOKENS,
            },
            "num_requests": num_requests,
        },
        "model": "llama-3.1-8b",
        "cluster": {"gpu": "h100_sxm"},
        "scheduler": {
            "policy": "chunked_prefill",
            "max_num_seqs": 1024,
            "max_num_batched_tokens": 8192,
            "async_scheduling": async_scheduling,
        },
        "kv_cache": {"num_gpu_blocks": 28_000, "enable_prefix_caching": prefix_caching},
        "cost_model": {
            "kind": f"{Path(__file__).resolve()}:"
            + ("asynchronous" if async_scheduling else "synchronous")
        },
    }


def resolved(data: dict[str, Any]) -> Resolved:
    """The scenario with everything filled in."""
    return resolve(Scenario.from_mapping(data))
