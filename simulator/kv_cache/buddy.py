"""The buddy system: pieces of 2^k blocks, each at a multiple of its size.

Knowlton, "A fast storage allocator" (1965); Knuth, The Art of Computer Programming 1, 2.5.
Two free neighbours that are the halves of one aligned piece are that piece, always, so the
free lists follow from what is taken: each gap falls into its largest aligned pieces.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import njit


@njit
def piece(start: int, stop: int) -> int:
    """Blocks of the largest aligned piece that begins at `start` and ends before `stop`."""
    size = 1
    while start % (2 * size) == 0 and start + 2 * size <= stop:
        size *= 2
    return size


def rounded(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) blocks of the pieces that requests of `blocks` blocks get."""
    exponent = np.ceil(np.log2(np.maximum(blocks, 1)))  # exact at powers of two
    return 1 << exponent.astype(np.int64)


def largest(blocks: int) -> int:
    """Blocks of the largest piece of an empty pool of `blocks` blocks."""
    return 1 << (blocks.bit_length() - 1)
