"""Paged KV blocks, counted: without prefix sharing a block needs no identity.

vLLM's block pool as seen from outside (Kwon et al., "Efficient Memory Management for
Large Language Model Serving with PagedAttention", 2023): a sequence of `t` tokens holds
ceil(t / block_size) blocks wherever they lie.
"""

from __future__ import annotations

from cost_models.jit import njit


@njit
def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return (tokens + block_size - 1) // block_size
