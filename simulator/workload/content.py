"""What prompts consist of: pieces that are equal where prompts share a prefix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.workload.requests import Ints

WHOLE_HISTORY = -1  # a turn's prompt repeats all that was said before


class Content(NamedTuple):
    """`Requests.segments` and `Requests.segment_offsets`, and what to say about them."""

    segments: Ints
    offsets: Ints
    note: str


def own_tag(row: int) -> int:
    """Tag of what only request `row` has in its prompt; as `kv_cache.prefix` has it."""
    return -2 * row - 1


def output_tag(row: int) -> int:
    """Tag of the tokens that request `row` generates; as `kv_cache.prefix` has it."""
    return -2 * row - 2


def of_blocks(blocks: NDArray[Any], prompt_tokens: Ints, block_tokens: int) -> Content:
    """A piece for each block id; what a prompt has beyond its last block is its own.

    Parameters
    ----------
    blocks : (n,) block ids of each prompt, as the bytes of 64 bits each.
    prompt_tokens : (n,)
    block_tokens : tokens that an id stands for; the last one may stand for fewer.
    """
    counts = np.array([len(ids) // 8 for ids in blocks.tolist()], np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    names = np.frombuffer(b"".join(blocks.tolist()), np.uint64)
    _, tags = np.unique(names, return_inverse=True)
    row = np.repeat(np.arange(len(counts)), counts)
    start = (np.arange(len(names)) - offsets[row]) * block_tokens
    lengths = np.clip(prompt_tokens[row] - start, 0, block_tokens)
    return Content(
        np.stack([tags, lengths], axis=1).astype(np.int64).reshape(-1, 2),
        offsets,
        f"prefixes: prompts share what has the same block ids, of {block_tokens} tokens each",
    )


def of_system_prompts(shared_tokens: Ints, tags: Ints, prompt_tokens: Ints) -> Content:
    """The first `shared_tokens` of each prompt are the same for all of a tag.

    A prompt that is shorter than them is their beginning.
    """
    length = np.minimum(shared_tokens, prompt_tokens)
    has = length > 0
    share = float(length.sum() / prompt_tokens.sum())
    return Content(
        np.stack([tags[has], length[has]], axis=1),
        np.concatenate(([0], np.cumsum(has))),
        f"prefixes: {share:.1%} of the prompt tokens are shared system prompts",
    )


def of_sessions(
    system_tokens: Ints,
    tags: Ints,
    prompt_tokens: Ints,
    output_tokens: Ints,
    turn: Ints,
    history_tokens: Ints,
) -> Content:
    """Prompts that begin with what was said before in their session.

    Parameters
    ----------
    system_tokens, tags : first tokens of a first turn's prompt, the same for all of a tag.
    prompt_tokens, output_tokens : (n,)
    turn : (n,) a row with turn > 0 follows the row before it.
    history_tokens : (n,) leading tokens of the prompt that are those of the turn before,
        its output included; WHOLE_HISTORY: as many as there are.
    """
    segments: list[tuple[int, int]] = []
    offsets = [0]
    said: list[tuple[int, int]] = []  # pieces of the turn before and its output
    repeated = 0
    columns = (system_tokens, tags, prompt_tokens, output_tokens, turn, history_tokens)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (system, tag, prompt, output, number, history) in enumerate(rows):
        pieces = [(tag, system)]
        if number:
            pieces, system = said, history if history != WHOLE_HISTORY else prompt
        pieces, shared = _first(pieces, min(system, prompt))
        repeated += shared
        segments += pieces
        offsets.append(len(segments))
        own = [(own_tag(row), prompt - shared)] if prompt > shared else []
        said = [*pieces, *own, (output_tag(row), output)]
    share = repeated / int(prompt_tokens.sum())
    return Content(
        np.array(segments, np.int64).reshape(-1, 2),
        np.array(offsets),
        f"prefixes: {share:.1%} of the prompt tokens are what was said before in the session, or "
        "a shared system prompt",
    )


def _first(pieces: list[tuple[int, int]], tokens: int) -> tuple[list[tuple[int, int]], int]:
    """Leading pieces of up to `tokens` tokens, and how many they are."""
    taken, left = [], tokens
    for tag, length in pieces:
        length = min(length, left)
        if length == 0:
            break
        taken.append((tag, length))
        left -= length
    return taken, tokens - left
