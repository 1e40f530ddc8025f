"""Time of one operation on one GPU: rooflines with smooth overlap.

Each function takes fitted parameters and the operation's sizes (numbers or arrays that
broadcast) and gives seconds.  Fitting and pricing use the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

BF16_BYTES = 2
GEMM_TILE_ROWS = 64  # tokens are computed in tiles of this many rows

# Element-wise kernels (norms, activation), each: launch plus bytes at this share of the
# datasheet bandwidth.  An assumption, not a measurement.
ELEMENTWISE_LAUNCH_S = 3e-6
ELEMENTWISE_BANDWIDTH_SHARE = 0.8

Array = NDArray[np.float64]
Params = Mapping[str, float]


def gemm_s(params: Params, m: ArrayLike, n: ArrayLike, k: ArrayLike, width: float) -> Array:
    """``[m, k] @ [k, n]``: launch + p-norm of memory time and compute time.

    `width` is the bytes per element of weights and inputs; outputs are bf16.
    """
    m, n, k = (np.asarray(x, dtype=np.float64) for x in (m, n, k))
    memory_s = n * k * width / params["weight_bytes_per_s"]
    memory_s = memory_s + m * (width * k + BF16_BYTES * n) / params["activation_bytes_per_s"]
    rows = np.ceil(m / GEMM_TILE_ROWS) * GEMM_TILE_ROWS
    compute_s = 2 * rows * n * k / params["flops_per_s"]
    longer, shorter = np.maximum(memory_s, compute_s), np.minimum(memory_s, compute_s)
    p = params["overlap"]
    # The p-norm by its larger term, which neither overflows nor vanishes.
    joined: Array = longer * (1 + (shorter / longer) ** p) ** (1 / p)
    return params["launch_s"] + joined


def decode_attention_s(
    params: Params,
    seqs: ArrayLike,
    context: ArrayLike,
    num_kv_heads: ArrayLike,
    head_dim: ArrayLike,
    kv_bytes: float,
) -> Array:
    """One layer's attention of `seqs` sequences that decode at `context` each."""
    seqs, context, heads, dim = (
        np.asarray(x, dtype=np.float64) for x in (seqs, context, num_kv_heads, head_dim)
    )
    read_s = seqs * context * 2 * heads * dim * kv_bytes / params["kv_bytes_per_s"]
    result: Array = params["launch_s"] + read_s + seqs * heads * params["per_seq_head_s"]
    return result


def prefill_attention_s(
    params: Params,
    seqs: ArrayLike,
    tokens: ArrayLike,
    area: ArrayLike,
    mean_kv: ArrayLike,
    num_heads: ArrayLike,
    head_dim: ArrayLike,
) -> Array:
    """One layer's attention of `seqs` chunks with `tokens` and `area` in all.

    Either the matrix products set the pace or, with few heads, one tile's walk along the
    `mean_kv` keys of its own sequence.
    """
    seqs, tokens, area, mean_kv, heads, dim = (
        np.asarray(x, dtype=np.float64) for x in (seqs, tokens, area, mean_kv, num_heads, head_dim)
    )
    compute_s = (
        4 * heads * dim * area / params["flops_per_s"]
        + tokens * heads * params["per_token_head_s"]
        + seqs * heads * params["per_seq_head_s"]
    )
    result: Array = params["launch_s"] + np.maximum(compute_s, mean_kv * params["per_kv_s"])
    return result
