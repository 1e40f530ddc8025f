"""Lengths of texts: the data sets that benchmarks draw prompts from.

ShareGPT has conversations, of which benchmarks send the first message and expect the second;
`vllm bench serve --dataset-name custom` has a prompt and output_tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import LARGEST_COUNT, Ints
from simulator.workload.traces.records import Record, records
from simulator.workload.traces.source import Source

OUTPUT = ("output_tokens", "output_len")


def holds_texts(names: list[str]) -> bool:
    """Whether a file with these keys holds texts in place of lengths."""
    return "conversations" in names or "prompt" in names


def text_lengths(source: Source, tokens_per_word: float | None) -> tuple[Ints, Ints, str]:
    """Prompt and output lengths of all texts, at so many tokens a word; and what was done.

    Raises
    ------
    InputError
        No rule to count tokens is given, or a row is not as it should be.
    """
    if tokens_per_word is None:
        raise InputError(
            f"{source.path} holds texts, whose tokens depend on a tokenizer; say how many a word "
            "is taken to have with lengths.tokens_per_word, about 1.3 for English"
        )
    lengths, short = [], 0
    for record in records(source):
        messages = record.cells.get("conversations")
        if isinstance(messages, list) and len(messages) < 2:
            short += 1  # nothing was answered
            continue
        lengths.append(_lengths(source, record, tokens_per_word))
    if not lengths:
        raise InputError(f"{source.path}: no text in it has an answer; nothing to simulate")
    prompt, output = np.array(lengths, np.int64).T
    note = f"{len(lengths):,} texts at {tokens_per_word:g} tokens a word"
    if short:
        note += f"; {short:,} conversations without an answer are left out"
    return prompt, output, note


def _lengths(source: Source, record: Record, tokens_per_word: float) -> tuple[int, int]:
    if record.fault is not None:
        raise InputError(f"{source.path}, {record.place}: the row {record.fault}; correct it")
    cells = record.cells
    if isinstance(cells.get("conversations"), list):
        said = [m.get("value") if isinstance(m, dict) else None for m in cells["conversations"][:2]]
        return (
            _tokens(source, record, "conversations", said[0], tokens_per_word),
            _tokens(source, record, "conversations", said[1], tokens_per_word),
        )
    prompt = _tokens(source, record, "prompt", cells.get("prompt"), tokens_per_word)
    stated = next((cells[name] for name in OUTPUT if cells.get(name) is not None), None)
    if type(stated) is not int or not 1 <= stated <= LARGEST_COUNT:
        raise InputError(
            f"{source.path}, {record.place}: output_tokens {stated!r} is not a whole number from 1 "
            "on; add it, since a benchmark's own default is no property of the data"
        )
    return prompt, stated


def _tokens(source: Source, record: Record, key: str, text: Any, tokens_per_word: float) -> int:
    if not isinstance(text, str):
        raise InputError(f"{source.path}, {record.place}: {key} holds no text; correct the row")
    return max(1, round(len(text.split()) * tokens_per_word))
