"""Measured / roofline on grids of sizes, between their nodes and beyond their edges.

Between nodes the ratio goes straight in the logarithms of the sizes; beyond an edge it
keeps the edge's value, so that the roofline carries on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_models.calibration import Decode, DecodeHeads, Gemm, Prefill

Array = NDArray[np.float64]
H = TypeVar("H", DecodeHeads, Prefill)


def _bracket(nodes: Sequence[int], size: float) -> tuple[int, int, float]:
    """The nodes around `size` and how far it is, in logarithms, from the lower."""
    if size <= nodes[0]:
        return 0, 0, 0.0
    if size >= nodes[-1]:
        last = len(nodes) - 1
        return last, last, 0.0
    upper = int(np.searchsorted(nodes, size, side="left"))
    lower = upper - 1
    share = math.log(size / nodes[lower]) / math.log(nodes[upper] / nodes[lower])
    return lower, upper, share


def gemm_ratio(gemm: Gemm, m: Array, n: int, k: int) -> Array:
    """Ratio for each number of tokens `m` of one product's width `n` and depth `k`."""
    if not gemm.permille:
        return np.ones_like(m)
    grid = np.asarray(gemm.permille, dtype=np.float64) / 1000
    grid = grid.reshape(len(gemm.m), len(gemm.n), len(gemm.k))
    n0, n1, by_n = _bracket(gemm.n, n)
    k0, k1, by_k = _bracket(gemm.k, k)
    by_m = (1 - by_n) * ((1 - by_k) * grid[:, n0, k0] + by_k * grid[:, n0, k1]) + by_n * (
        (1 - by_k) * grid[:, n1, k0] + by_k * grid[:, n1, k1]
    )
    result: Array = np.interp(np.log(m), np.log(gemm.m), by_m)
    return result


def decode_ratio(decode: Decode, heads: DecodeHeads, seqs: Array, context: Array) -> Array:
    """Ratio on the whole grid of `seqs` (rows) and `context` (columns)."""
    grid = np.asarray(heads.permille, dtype=np.float64) / 1000
    log_context, log_seqs = np.log(context), np.log(seqs)
    by_context = np.stack([np.interp(log_context, np.log(decode.context), row) for row in grid])
    result: Array = np.stack(
        [np.interp(log_seqs, np.log(decode.seqs), column) for column in by_context.T], axis=1
    )
    return result


def nearest_heads(entries: Sequence[H], num_heads: int, num_kv_heads: int) -> H:
    """The entry whose KV heads, then query heads, are nearest by ratio."""

    def distance(entry: H) -> tuple[float, float, int]:
        return (
            abs(math.log(entry.num_kv_heads / num_kv_heads)),
            abs(math.log(entry.num_heads / num_heads)),
            entry.num_heads,
        )

    return min(entries, key=distance)
