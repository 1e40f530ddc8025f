"""The compiled price of one engine step: a few look-ups and multiply-adds.

Everything that depends on the number of tokens alone (GEMMs, all-reduce, element-wise
kernels) or on the number of sequences alone (lm_head, sampler) is tabulated when a cost
model loads; attention is a formula of the step's aggregates.  One function and one tuple
type serve every cost model, so switching between them compiles nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit

# Places in `CostTables.coef`; all in seconds (per the unit in the name).
DECODE_BASE = 0  # once per step that decodes: launch floors of the attention kernels
DECODE_PER_CONTEXT = 1  # per token of summed context: reading the KV cache
DECODE_PER_LONGEST = 2  # per token of the longest context, when that sets the pace
DECODE_PER_SEQ = 3  # per decoding sequence
PREFILL_BASE = 4  # once per step that prefills
PREFILL_PER_AREA = 5  # per query-key pair: the attention matrix products
PREFILL_PER_KV = 6  # per token of past + chunk, when reading it sets the pace
PREFILL_PER_TOKEN = 7  # per prefill token
MIXED_BASE = 8  # once per step that both decodes and prefills
TOKENS_BASE = 9  # `tokens_s` beyond its end: base + tokens * slope
TOKENS_SLOPE = 10
SEQS_BASE = 11  # `logits_s` beyond its end: base + sequences * slope
SEQS_SLOPE = 12
HOST_BASE = 13  # the engine's own work once per step ...
HOST_PER_SEQ = 14  # ... and per scheduled sequence
NUM_COEF = 15


class CostTables(NamedTuple):
    """What `step_time` reads; every array is float64 and C-contiguous.

    Attributes
    ----------
    tokens_s : (M + 1,) seconds that depend on the step's tokens alone, index = tokens.
    decode_tokens_s : (D + 1,) the same for steps that only decode, which replay a CUDA
        graph of the next captured size; beyond its end `tokens_s` holds.
    logits_s : (N + 1,) seconds of lm_head and sampler, index = scheduled sequences.
    coef : (NUM_COEF,) coefficients, places named above.
    """

    tokens_s: NDArray[np.float64]
    decode_tokens_s: NDArray[np.float64]
    logits_s: NDArray[np.float64]
    coef: NDArray[np.float64]


@njit
def step_time(
    cost: CostTables,
    tokens: int,
    decode_seqs: int,
    decode_context: int,
    max_context: int,
    prefill_seqs: int,
    prefill_tokens: int,
    prefill_area: float,
    prefill_kv: int,
    scheduled_seqs: int,
) -> tuple[float, float]:
    """Price one step from its aggregates.

    Parameters
    ----------
    cost : tables made by a cost model.
    tokens : tokens computed in the step, padding included.
    decode_seqs : sequences that decode one token each.
    decode_context : Σ context over them, the new token included.
    max_context : the longest of these contexts.
    prefill_seqs : prompts, or chunks of prompts, in the step.
    prefill_tokens : Σ chunk.
    prefill_area : Σ chunk·(past + chunk / 2), query-key pairs under the causal mask.
    prefill_kv : Σ (past + chunk).
    scheduled_seqs : sequences in the step; the engine computes logits for each.

    Returns
    -------
    (gpu_s, host_s) : seconds on the GPU and in the engine's own code.  A step takes their
        sum when the engine schedules synchronously.
    """
    coef = cost.coef
    if prefill_tokens == 0 and tokens < cost.decode_tokens_s.shape[0]:
        gpu_s = cost.decode_tokens_s[tokens]
    elif tokens < cost.tokens_s.shape[0]:
        gpu_s = cost.tokens_s[tokens]
    else:
        gpu_s = coef[TOKENS_BASE] + tokens * coef[TOKENS_SLOPE]

    if scheduled_seqs < cost.logits_s.shape[0]:
        gpu_s += cost.logits_s[scheduled_seqs]
    else:
        gpu_s += coef[SEQS_BASE] + scheduled_seqs * coef[SEQS_SLOPE]

    if decode_seqs > 0:
        read_s = decode_context * coef[DECODE_PER_CONTEXT]
        longest_s = max_context * coef[DECODE_PER_LONGEST]
        if longest_s > read_s:
            read_s = longest_s
        gpu_s += coef[DECODE_BASE] + read_s + decode_seqs * coef[DECODE_PER_SEQ]
        if prefill_seqs > 0:
            gpu_s += coef[MIXED_BASE]

    if prefill_seqs > 0:
        compute_s = prefill_area * coef[PREFILL_PER_AREA]
        load_s = prefill_kv * coef[PREFILL_PER_KV]
        if load_s > compute_s:
            compute_s = load_s
        gpu_s += coef[PREFILL_BASE] + compute_s + prefill_tokens * coef[PREFILL_PER_TOKEN]

    host_s = coef[HOST_BASE] + scheduled_seqs * coef[HOST_PER_SEQ]
    return gpu_s, host_s
