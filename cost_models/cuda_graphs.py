"""Which batch sizes an engine captures as CUDA graphs, and the padding that this brings.

A step that only decodes replays the graph of the next captured size and so is priced at
that size; measured steps jump by 7 % from 8 to 9 sequences and are flat up to the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def captured_sizes(max_num_seqs: int, compute_capability: str) -> NDArray[np.int64]:
    """vLLM's captured sizes: 1, 2, 4, then by 8 below 256, then by 16.

    Parameters
    ----------
    max_num_seqs : the engine's limit; sizes go up to twice that.
    compute_capability : of the GPU; 10.x captures up to 1,024, others up to 512.
    """
    limit = min(2 * max_num_seqs, 1024 if compute_capability.startswith("10.") else 512)
    sizes = [*(1, 2, 4), *range(8, 256, 8), *range(256, 1025, 16)]
    return np.array([size for size in sizes if size <= limit], dtype=np.int64)


def padded_sizes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each number of tokens from 0 to the largest captured size, the size it runs at."""
    tokens = np.arange(sizes[-1] + 1)
    padded: NDArray[np.int64] = sizes[np.searchsorted(sizes, tokens)]
    padded[0] = 0
    return padded
