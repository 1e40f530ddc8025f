"""Which blocks more than one request can ever ask for.

A block is known by all tokens up to its end.  Where these contain a piece that occurs in no
other request's prompt, only the request itself can look for the block, and only after a
preemption.  Until then such a block needs no hash, only its place in the pool.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.kv_cache.prefix import ALL_BLOCKS
from simulator.workload.content import own_tag
from simulator.workload.requests import Requests


def shareable_blocks(requests: Requests, block_size: int) -> NDArray[np.int32]:
    """(N,) leading blocks of each request that others may look for.

    ALL_BLOCKS for a request of which every piece of the prompt occurs elsewhere and what it
    has for itself, or its answer, is repeated in another prompt.
    """
    n = len(requests)
    pieces = np.diff(requests.segment_offsets)
    row = np.repeat(np.arange(n), pieces)
    tag, length = requests.segments.T
    shared, repeated = _used_by_others(row, tag, n)

    end = np.concatenate(([0], np.cumsum(length)))
    before = end[requests.segment_offsets[:-1]]
    tokens = end[requests.segment_offsets[1:]] - before
    blocks = np.where(repeated, ALL_BLOCKS, tokens // block_size)
    private = np.flatnonzero(~shared)
    # The first private piece of each request ends what others may look for.
    first_row, first = np.unique(row[private], return_index=True)
    start = end[private[first]] - before[first_row]
    blocks[first_row] = start // block_size
    return blocks.astype(np.int32)


def _used_by_others(
    row: NDArray[np.int64], tag: NDArray[np.int64], n: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each piece, whether another request has it; for each request, whether another's
    prompt repeats its own piece or its output."""
    _, kind = np.unique(tag, return_inverse=True)
    pairs = np.unique(np.stack([kind, row]), axis=1)
    users = np.bincount(pairs[0], minlength=int(kind.max(initial=-1)) + 1)
    of_request = tag < 0  # own and output tags, two for each request
    owner = (own_tag(0) - tag[of_request]) // 2
    foreign = owner != row[of_request]
    shared = users[kind] > 1
    shared[of_request] |= foreign
    repeated = np.zeros(n, np.bool_)
    repeated[owner[foreign]] = True
    return shared, repeated
