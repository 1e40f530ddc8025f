"""Block ids of prompts: equal ids, equal text, so that prompts share their prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.workload.requests import Ints
from simulator.workload.traces.cells import BlockIds, block_count
from simulator.workload.traces.layout import Check, Field, Layout
from simulator.workload.traces.trace import Trace

BLOCKS = Field("blocks", ("hash_ids",), BlockIds(), required=False, default=b"")


def with_block_rule(layout: Layout, block_tokens: int | None) -> Layout:
    """`layout` with the rule that a prompt has as many ids as blocks, the last one in part.

    `block_tokens` takes the place of the format's block size; most files do not tell theirs.
    """
    if all(f.role != "blocks" for f in layout.fields):
        if block_tokens is not None:
            raise InputError(
                f"workload.trace.block_tokens is {block_tokens}, but format {layout.name} has no "
                "block ids; remove it"
            )
        return layout
    size = block_tokens or layout.block_tokens
    assert size is not None

    def holds(prompt: int, blocks: bytes) -> bool:
        count, whole, all_blocks = block_count(blocks), prompt // size, -(-prompt // size)
        good = {True: {all_blocks}, False: {whole}, None: {whole, all_blocks}}
        return not blocks or count in good[layout.part_block]

    rule = Check(
        ("prompt_tokens", "blocks"),
        holds,
        f"has another number of hash_ids than its prompt has blocks of {size} tokens (another "
        "size can be given as workload.trace.block_tokens)",
    )
    return replace(layout, checks=(*layout.checks, rule), block_tokens=size)


def reused_tokens(trace: Trace) -> int:
    """Prompt tokens in leading blocks that an earlier prompt of `trace` began with too.

    What a prefix cache without limits, of whole blocks of the trace's size, would find.
    """
    assert trace.block_tokens is not None
    seen: dict[tuple[int, int], int] = {}
    reused = 0
    for ids, prompt in zip(
        trace.extra["blocks"].tolist(), trace.prompt_tokens.tolist(), strict=True
    ):
        chain, fresh = -1, False
        for block in np.frombuffer(ids, np.uint64)[: prompt // trace.block_tokens].tolist():
            fresh = fresh or (chain, block) not in seen
            reused += 0 if fresh else trace.block_tokens
            chain = seen.setdefault((chain, block), len(seen))
    return reused


def shared_with_previous(trace: Trace) -> Ints:
    """(n,) leading tokens of each prompt in blocks that the prompt before it began with."""
    assert trace.block_tokens is not None
    shared = np.zeros(len(trace), np.int64)
    before = np.zeros(0, np.uint64)
    for row, ids in enumerate(trace.extra["blocks"].tolist()):
        now = np.frombuffer(ids, np.uint64)
        both = min(len(before), len(now))
        differ = np.flatnonzero(before[:both] != now[:both])
        shared[row] = (differ[0] if len(differ) else both) * trace.block_tokens
        before = now
    return np.minimum(shared, trace.prompt_tokens)


def reblock(
    blocks: NDArray[np.object_], prompt_tokens: Ints, size: int, new_size: int
) -> Iterator[list[int]]:
    """Ids of blocks of `new_size` tokens for prompts whose blocks have `size` tokens.

    A new block's id stands for its text and all before it.  Smaller blocks share what the
    larger did; larger ones lose what is shared of their last one in part.
    """
    known: dict[tuple[int, ...], int] = {}
    for ids, prompt in zip(blocks.tolist(), prompt_tokens.tolist(), strict=True):
        old = np.frombuffer(ids, np.uint64).tolist()
        chain: list[int] = []
        for start in range(0, prompt, new_size):
            end = min(start + new_size, prompt)
            inside = old[start // size : -(-end // size)]
            before = chain[-1] if chain else -1
            key = (before, start % size, end - start, *inside)
            if not inside or end > len(old) * size:
                key = (-2, len(known))  # text that no other prompt has
            chain.append(known.setdefault(key, len(known)))
        yield chain
