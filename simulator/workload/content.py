"""What prompts consist of: pieces that are equal where prompts share a prefix."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.workload.requests import Ints

Row = TypeVar("Row", int, Ints)

WHOLE_HISTORY = -1  # a turn's prompt repeats all that was said before


class Content(NamedTuple):
    """`Requests.segments` and `Requests.segment_offsets`, and what to say about them."""

    segments: Ints
    offsets: Ints
    note: str


def own_tag(row: Row) -> Row:
    """Tag of what only request `row` has in its prompt; as `kv_cache.prefix` has it."""
    return -2 * row - 1


def output_tag(row: Row) -> Row:
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
    said = np.append(0, (prompt_tokens + output_tokens)[:-1])
    later = turn > 0
    if (history_tokens[later] == WHOLE_HISTORY).all() and (prompt_tokens >= said)[later].all():
        before = np.where(later, said, np.minimum(system_tokens, prompt_tokens))
        own, system = prompt_tokens - before, before[turn == 0]
        segments, offsets = _everything_said(own, output_tokens, system, tags, turn)
    else:
        segments, offsets = _part_of_it(
            system_tokens, tags, prompt_tokens, output_tokens, history_tokens, turn
        )
    share = int(segments[:, 1].sum()) / int(prompt_tokens.sum())
    return Content(
        segments,
        offsets,
        f"prefixes: {share:.1%} of the prompt tokens are what was said before in the session, or "
        "a shared system prompt",
    )


def _everything_said(
    own: Ints, output: Ints, system: Ints, tags: Ints, turn: Ints
) -> tuple[Ints, Ints]:
    """Pieces of prompts that repeat all of the turns before: system prompt, own, output, own, ...

    `own` is what each prompt adds to what was said, `system` the system prompt of each session.
    """
    counts = 1 + 2 * turn
    offsets = np.concatenate(([0], np.cumsum(counts)))
    row = np.repeat(np.arange(len(turn)), counts)
    place = np.arange(len(row)) - offsets[row]
    first = row - turn[row]
    told_by = np.where(place == 0, first, first + (place - 1) // 2)
    kinds = [place == 0, place % 2 == 1]
    tag = np.select(kinds, [tags[told_by], own_tag(told_by)], output_tag(told_by))
    session = np.cumsum(turn == 0) - 1
    length = np.select(kinds, [system[session[row]], own[told_by]], output[told_by])
    full = length > 0
    kept = np.concatenate(([0], np.cumsum(full)))
    return np.stack([tag[full], length[full]], axis=1), kept[offsets]


def _part_of_it(
    system_tokens: Ints,
    tags: Ints,
    prompt_tokens: Ints,
    output_tokens: Ints,
    history_tokens: Ints,
    turn: Ints,
) -> tuple[Ints, Ints]:
    """The same where a prompt may repeat less of the turn before."""
    segments: list[tuple[int, int]] = []
    offsets = [0]
    said: list[tuple[int, int]] = []  # pieces of the turn before and its output
    columns = (system_tokens, tags, prompt_tokens, output_tokens, history_tokens, turn)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (system, tag, prompt, output, history, number) in enumerate(rows):
        pieces = [(tag, system)]
        if number:
            pieces, system = said, history if history != WHOLE_HISTORY else prompt
        pieces, shared = _first(pieces, min(system, prompt))
        segments += pieces
        offsets.append(len(segments))
        own = [(own_tag(row), prompt - shared)] if prompt > shared else []
        said = [*pieces, *own, (output_tag(row), output)]
    return np.array(segments, np.int64).reshape(-1, 2), np.array(offsets)


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
