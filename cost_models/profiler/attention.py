"""Calls of attention over a KV cache: by vLLM's own kernels where it is installed.

With vLLM, batches of any shape are one launch over paged blocks, as its engine does it.
Without, PyTorch's attention runs once per group of equal sequences, over contiguous memory:
an uneven batch is then several launches, which an engine does not make.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from cost_models.profiler.cases import Case, contexts
from cost_models.profiler.clock import Call
from cost_models.profiler.extra import torch_module
from cost_models.profiler.memory import Pool

BLOCK_SIZE = 16
# vLLM's limits: of splits of one sequence inside CUDA graphs, and of tokens of such a graph.
GRAPH_SPLITS, GRAPH_TOKENS = 32, 512

Sequence_ = tuple[int, int]  # new tokens and context, these included


class Attention(Protocol):
    """Makes calls of one layer's attention."""

    name: str

    def calls(self, batch: Sequence[Sequence_], heads: tuple[int, int, int]) -> list[Call]:
        """The same attention over different parts of memory."""
        ...


def batch_of(of: Case) -> list[Sequence_]:
    """New tokens and context of each sequence of a case."""
    if of.op == "decode":
        return [(1, context) for context in contexts(of)]
    chunk = (of["chunk"], of["past"] + of["chunk"])
    if of.op == "prefill":
        return [chunk] * of["seqs"]
    return [(1, of["context"])] * of["seqs"] + [chunk]


def heads_of(of: Case) -> tuple[int, int, int]:
    """Query heads, KV heads and head size of a case."""
    return of["num_heads"], of["num_kv_heads"], of["head_dim"]


def kv_elements(batch: Sequence[Sequence_], heads: tuple[int, int, int]) -> int:
    """Elements of the batch's keys and values, in whole blocks."""
    _, kv_heads, head_dim = heads
    blocks = sum(-(-context // BLOCK_SIZE) for _, context in batch)
    return 2 * blocks * BLOCK_SIZE * kv_heads * head_dim


def find(pool: Pool) -> Attention:
    """vLLM's attention if it is installed and there is a GPU, else PyTorch's."""
    if pool.device == "cuda":
        try:
            return VllmAttention(pool)
        except ImportError:
            pass
    return TorchAttention(pool)


class VllmAttention:
    """The flash attention that vLLM ships, over paged blocks, scheduled ahead as it does."""

    def __init__(self, pool: Pool):
        from vllm import __version__, vllm_flash_attn

        self.torch, self.pool = torch_module(), pool
        self.flash = vllm_flash_attn
        # Its version for Hopper, and the one for every other GPU.
        self.version = 3 if self.torch.cuda.get_device_capability()[0] == 9 else 2
        self.name = f"vllm {__version__} flash attention {self.version}"

    def calls(self, batch: Sequence[Sequence_], heads: tuple[int, int, int]) -> list[Call]:
        """One launch for the whole batch; each call reads other blocks."""
        torch, (num_heads, kv_heads, head_dim) = self.torch, heads
        blocks = [-(-context // BLOCK_SIZE) for _, context in batch]
        needed = sum(blocks)
        parts = self.pool.parts(2, needed, BLOCK_SIZE, kv_heads, head_dim)
        tokens = [new for new, _ in batch]
        queries = self.pool.random(sum(tokens), num_heads, head_dim)
        order = torch.randperm(needed, dtype=torch.int32, device="cuda")
        table = torch.zeros(len(batch), max(blocks), dtype=torch.int32, device="cuda")
        for row, (end, count) in enumerate(zip(itertools.accumulate(blocks), blocks, strict=True)):
            table[row, :count] = order[end - count : end]
        starts = self._int32([0, *itertools.accumulate(tokens)])
        lengths = self._int32([context for _, context in batch])
        longest = max(context for _, context in batch)
        splits = GRAPH_SPLITS if sum(tokens) <= GRAPH_TOKENS and self.version == 3 else 0
        options: dict[str, Any] = {}
        if self.version == 3:
            options["scheduler_metadata"] = self.flash.get_scheduler_metadata(
                batch_size=len(batch),
                max_seqlen_q=max(tokens),
                max_seqlen_k=longest,
                num_heads_q=num_heads,
                num_heads_kv=kv_heads,
                headdim=head_dim,
                cache_seqlens=lengths,
                qkv_dtype=torch.bfloat16,
                cu_seqlens_q=starts,
                page_size=BLOCK_SIZE,
                causal=True,
                num_splits=splits,
            )
            options["num_splits"] = splits
        out = torch.empty_like(queries)

        def attend(keys: Any, values: Any) -> Any:
            return self.flash.flash_attn_varlen_func(
                q=queries,
                k=keys,
                v=values,
                out=out,
                cu_seqlens_q=starts,
                max_seqlen_q=max(tokens),
                seqused_k=lengths,
                max_seqlen_k=longest,
                causal=True,
                block_table=table,
                fa_version=self.version,
                **options,
            )

        return [lambda kv=kv: attend(kv[0], kv[1]) for kv in parts]  # type: ignore[misc]

    def _int32(self, values: list[int]) -> Any:
        return self.torch.tensor(values, dtype=self.torch.int32, device="cuda")


class TorchAttention:
    """PyTorch's scaled dot product attention, a launch for each group of equal sequences."""

    def __init__(self, pool: Pool):
        self.torch, self.pool = torch_module(), pool
        self.name = f"torch {self.torch.__version__} scaled dot product attention"

    def calls(self, batch: Sequence[Sequence_], heads: tuple[int, int, int]) -> list[Call]:
        """All groups, one after the other, in each call."""
        num_heads, kv_heads, head_dim = heads
        groups = [(*key, len(list(same))) for key, same in itertools.groupby(sorted(batch))]
        elements = [count * context * kv_heads * head_dim for _, context, count in groups]
        parts = self.pool.parts(2, sum(elements))
        queries = [self.pool.random(count, num_heads, new, head_dim) for new, _, count in groups]

        def attend(kv: Any) -> None:
            start = 0
            for (new, context, count), size, query in zip(groups, elements, queries, strict=True):
                keys, values = (
                    side[start : start + size].view(count, kv_heads, context, head_dim)
                    for side in kv
                )
                self._group(query, keys, values, new, context)
                start += size

        return [lambda kv=kv: attend(kv) for kv in parts]  # type: ignore[misc]

    def _group(self, query: Any, keys: Any, values: Any, new: int, context: int) -> Any:
        from torch.nn.attention.bias import causal_lower_right

        mask = None
        if 1 < new < context:  # the new tokens are the last of the context
            mask = causal_lower_right(new, context)
        return self.torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, is_causal=new == context > 1, enable_gqa=True
        )
