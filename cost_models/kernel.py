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

from cost_models.jit import inlined

# Places in `CostTables.coef`; all in seconds (per the unit in the name).
DECODE_LONGEST_BASE = 0  # attention of decodes, when the longest context sets the pace
PREFILL_BASE = 1  # once per step that prefills: launch of the attention kernels
PREFILL_PER_AREA = 2  # per query-key pair: the attention matrix products
PREFILL_PER_TOKEN = 3  # per prefill token
PREFILL_PER_SEQ = 4  # per prompt, or chunk of one
PREFILL_PER_CHUNK = 5  # per token of the mean chunk, when one tile's walk sets the pace
PREFILL_PER_PAST = 6  # per token that chunks find cached, beyond their products
TOKENS_BASE = 7  # `tokens_s` beyond its end: base + tokens * slope
TOKENS_SLOPE = 8
SEQS_BASE = 9  # `logits_s` beyond its end: base + sequences * slope
SEQS_SLOPE = 10
HOST_BASE = 11  # the engine's own work once per step ...
HOST_PER_SEQ = 12  # ... and per scheduled sequence
HOST_GAP = 13  # between two steps, when the host works while the GPU does; 0: it does not
MIXED_SAVED = 14  # where decodes and chunks share a launch: what a mixed step saves by it
NUM_COEF = 15


class CostTables(NamedTuple):
    """What `step_time` reads; every array is float64 and C-contiguous.

    Attributes
    ----------
    tokens_s : (M + 1,) seconds that depend on the step's tokens alone, index = tokens.
    decode_tokens_s : (D + 1,) the same for steps that only decode, which replay a CUDA
        graph of the next captured size; beyond its end `tokens_s` holds.
    logits_s : (N + 1,) seconds of lm_head and sampler, index = scheduled sequences.
    decode_attention_s : (B + 1, J + 1) seconds of attention over all layers when that many
        sequences decode at a mean context of 2^j tokens; linear between.  The last column
        is seconds per token of the longest context.  (0, 0) for none.
    coef : (NUM_COEF,) coefficients, places named above.
    """

    tokens_s: NDArray[np.float64]
    decode_tokens_s: NDArray[np.float64]
    logits_s: NDArray[np.float64]
    decode_attention_s: NDArray[np.float64]
    coef: NDArray[np.float64]


@inlined
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
    (gpu_s, host_s) : seconds on the GPU, and those that the engine's own code adds to them.
        A step takes their sum.
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

    attention_s = 0.0
    if decode_seqs > 0 and cost.decode_attention_s.shape[0] > 0:
        # The knot 2^j below the mean context, and how far the mean is on to the next.
        mean_context = decode_context / decode_seqs
        last = cost.decode_attention_s.shape[1] - 3
        knot = 0
        position = mean_context
        if mean_context >= 256.0 and last >= 8:  # most are: start nearer
            knot = 8
            position = mean_context * 0.00390625  # 1/256, exact
        while position >= 2.0 and knot < last:
            position *= 0.5
            knot += 1
        weight = position - 1.0
        row = min(decode_seqs, cost.decode_attention_s.shape[0] - 1)
        low_s = cost.decode_attention_s[row, knot]
        attention_s = low_s + weight * (cost.decode_attention_s[row, knot + 1] - low_s)
        if row < decode_seqs:  # beyond the table: in proportion
            attention_s *= decode_seqs / row
        per_token_s = cost.decode_attention_s[row, last + 2]
        longest_s = coef[DECODE_LONGEST_BASE] + max_context * per_token_s
        if longest_s > attention_s:
            attention_s = longest_s
        gpu_s += attention_s

    if prefill_seqs > 0:
        compute_s = (
            prefill_area * coef[PREFILL_PER_AREA]
            + prefill_tokens * coef[PREFILL_PER_TOKEN]
            + prefill_seqs * coef[PREFILL_PER_SEQ]
        )
        walk_s = prefill_tokens / prefill_seqs * coef[PREFILL_PER_CHUNK]
        if walk_s > compute_s:
            compute_s = walk_s
        past_s = (prefill_kv - prefill_tokens) * coef[PREFILL_PER_PAST]
        prefill_s = coef[PREFILL_BASE] + compute_s + past_s
        # One launch of both takes no less than the longer would alone.
        gpu_s += prefill_s - min(coef[MIXED_SAVED], attention_s, prefill_s)

    host_s = coef[HOST_BASE] + scheduled_seqs * coef[HOST_PER_SEQ]
    if coef[HOST_GAP] > 0.0:
        host_s = max(coef[HOST_GAP], host_s - gpu_s)
    return gpu_s, host_s
