"""Write a trace in another format, so that a benchmark can replay it on a real engine."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.blocks import reblock
from simulator.workload.traces.cells import BlockIds, CellKind, Elapsed, Stamp
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.trace import Trace

# Traces say when requests came after one another, not on which day; tools want a date.
DAY = np.datetime64("2024-01-01T00:00:00", "ns")


def write_trace(trace: Trace, path: Path, layout: Layout) -> None:
    """Write `trace` as a file of `layout`, packed when its name ends in ``.gz``.

    Columns that the format needs are written, and those optional ones that the trace
    has.  Times are good to a nanosecond, or to the seven digits of a date and time.
    Block ids (hash_ids) tell what prompts share, as far as blocks of the format's size can;
    those of a trace without them are made up so that no two requests share a block.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    columns = {f.names[0]: column for f in layout.fields if (column := _cells(trace, f, layout))}
    try:
        with _open(path) as file:
            if "csv" in layout.kinds:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
            else:
                for row in zip(*columns.values(), strict=True):
                    file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from error


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8", newline="")
    return path.open("w", encoding="utf-8", newline="")


def _cells(trace: Trace, field: Field, layout: Layout) -> Sequence[Any] | None:
    """The column of a field, or None where there is nothing to write."""
    if field.role == "arrival":
        return _moments(trace.arrival_s, field.kind)
    if field.role in ("prompt_tokens", "output_tokens"):
        tokens: list[int] = getattr(trace, field.role).tolist()
        return tokens
    if isinstance(field.kind, BlockIds):
        assert layout.block_tokens is not None
        return list(_block_ids(trace, layout.block_tokens))
    if field.role in trace.extra:
        return ["" if v == field.default else v for v in trace.extra[field.role].tolist()]
    return list(range(len(trace))) if field.required else None


def _moments(arrival_s: Floats, kind: CellKind) -> list[Any]:
    if isinstance(kind, Stamp):
        tenths_of_us = np.rint(arrival_s * 1e7).astype(np.int64)
        written = np.datetime_as_string(DAY + tenths_of_us * np.timedelta64(100, "ns"))
        return [text[:-2].replace("T", " ") for text in written.tolist()]
    assert isinstance(kind, Elapsed)
    decimals = max(0, 9 - round(np.log10(kind.per_second)))
    numbers = np.round(arrival_s * kind.per_second, decimals).tolist()
    return [int(number) if number.is_integer() else number for number in numbers]


def _block_ids(trace: Trace, size: int) -> Iterable[list[int]]:
    if "blocks" not in trace.extra:
        return _own_blocks(trace.prompt_tokens, size)
    assert trace.block_tokens is not None
    return reblock(trace.extra["blocks"], trace.prompt_tokens, trace.block_tokens, size)


def _own_blocks(prompt_tokens: Ints, block_tokens: int) -> Iterable[list[int]]:
    ends = np.cumsum(-(-prompt_tokens // block_tokens)).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield list(range(start, end))
