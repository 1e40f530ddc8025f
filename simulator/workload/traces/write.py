"""Write a trace in another format, so that a benchmark can replay it on a real engine."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from simulator.errors import InputError
from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.blocks import reblock, shared_with_previous
from simulator.workload.traces.cells import BlockIds, BlockRuns, CellKind, Elapsed, Stamp
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.subagents import as_sessions, earliest_s
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
        The file cannot be written, or the format has no sessions and the trace has.
    """
    if not layout.written:
        raise InputError(f"format {layout.name} is only read; write tracelab, dynamo or another")
    roles = {f.role for f in layout.fields}
    if "fork" in trace.extra and "forked_after" not in roles:
        trace = as_sessions(trace)
    if "turn" in trace.extra and "session" not in roles:
        raise InputError(
            f"{trace.path} has sessions whose turns wait for each other, which format "
            f"{layout.name} cannot tell; write dynamo, tracelab, weka or llmservingsim, or let "
            "them come as recorded (--turns as-recorded)"
        )
    columns = {f.names[0]: column for f in layout.fields if (column := _cells(trace, f, layout))}
    try:
        with _open(path) as file:
            if "csv" in layout.kinds:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
            else:
                for line in _objects(trace, columns, layout):
                    file.write(json.dumps(line) + "\n")
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from error


def _objects(
    trace: Trace, columns: dict[str, Sequence[Any]], layout: Layout
) -> Iterator[dict[str, Any]]:
    """Lines of a JSON file; cells that are empty are left out."""
    session: list[dict[str, Any]] = []
    starts = set(trace.starts.tolist())
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        cells = {name: cell for name, cell in zip(columns, row, strict=True) if cell != ""}
        if layout.roll is None:
            yield cells
            continue
        if number in starts and session:
            yield layout.roll(session)
            session = []
        session.append(cells)
    if session and layout.roll is not None:
        yield layout.roll(session)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8", newline="")
    return path.open("w", encoding="utf-8", newline="")


def _cells(trace: Trace, field: Field, layout: Layout) -> Sequence[Any] | None:
    """The column of a field, or None where there is nothing to write."""
    if field.role == "arrival":
        arrival_s = earliest_s(trace) if "fork" in trace.extra else trace.arrival_s
        moments = _moments(arrival_s, field.kind)
        optional = not field.required and "csv" not in layout.kinds
        return _first_only(trace, moments) if optional else moments
    if field.role in SESSION_ROLES:
        if not field.required and "turn" not in trace.extra:
            return None
        return SESSION_ROLES[field.role](trace, field)
    if field.role in ("agent", "forked_after"):
        return _agents(trace, field) if "fork" in trace.extra else None
    if field.role in ("prompt_tokens", "output_tokens"):
        tokens: list[int] = getattr(trace, field.role).tolist()
        return tokens
    if field.role == "urgency" and "priority" in trace.extra:
        return ["" if p == 0 else -p for p in trace.extra["priority"].tolist()]
    if isinstance(field.kind, BlockRuns):
        return None
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


def _first_only(trace: Trace, cells: list[Any]) -> list[Any]:
    """`cells` where a session starts, nothing for its later turns."""
    starts = set(trace.starts.tolist())
    return [cell if row in starts else "" for row, cell in enumerate(cells)]


def _session_names(trace: Trace, field: Field) -> list[str]:
    turns = np.diff(trace.starts, append=len(trace))
    return [f"s{k}" for k in np.repeat(np.arange(len(turns)), turns).tolist()]


def _agents(trace: Trace, field: Field) -> list[Any]:
    """Paths of the sub-agents, or the turns of their callers that they came after."""
    turn, fork = trace.extra["turn"].tolist(), trace.extra["fork"].tolist()
    paths: list[str] = []
    callers: list[Any] = []
    for row, (number, away) in enumerate(zip(turn, fork, strict=True)):
        if number:
            path, caller = paths[-1], callers[-1]
        else:
            path, caller = (f"{paths[row + away]}/a{row}", turn[row + away]) if away else ("", "")
        paths.append(path)
        callers.append(caller)
    return paths if field.role == "agent" else callers


def _turns(trace: Trace, field: Field) -> list[int]:
    numbers: list[int] = trace.extra.get("turn", np.zeros(len(trace), np.int64)).tolist()
    return numbers


def _think(trace: Trace, field: Field) -> list[Any]:
    """Times before a turn, or those after it before the next one."""
    assert isinstance(field.kind, Elapsed)
    think_s = trace.extra.get("think_s", np.zeros(len(trace)))
    if field.role == "think_after":
        return _moments(np.append(think_s[1:], 0.0), field.kind)
    turn = trace.extra.get("turn", np.zeros(len(trace), np.int64)).tolist()
    cells = _moments(think_s, field.kind)
    return [cell if number else "" for number, cell in zip(turn, cells, strict=True)]


def _prefix_tokens(trace: Trace, field: Field) -> list[int]:
    """Leading tokens of each prompt that are those of the turn before."""
    prompt = trace.prompt_tokens
    if "turn" not in trace.extra:
        return [0] * len(trace)
    said = np.append(0, (prompt + trace.output_tokens)[:-1])
    prefix = trace.extra.get("prefix_tokens", said)
    if "blocks" in trace.extra:
        prefix = shared_with_previous(trace)
    later = np.where(trace.extra["turn"] > 0, np.minimum(prefix, prompt), 0)
    tokens: list[int] = trace.extra.get("prefix_tokens", later).tolist()
    return tokens


def _new_tokens(trace: Trace, field: Field) -> list[int]:
    rest: list[int] = (trace.prompt_tokens - np.array(_prefix_tokens(trace, field))).tolist()
    return rest


SESSION_ROLES: dict[str, Callable[[Trace, Field], list[Any]]] = {
    "session": _session_names,
    "round": _turns,
    "think_before": _think,
    "think_after": _think,
    "prefix_tokens": _prefix_tokens,
    "new_tokens": _new_tokens,
}


def _block_ids(trace: Trace, size: int) -> Iterable[list[int]]:
    if "blocks" not in trace.extra:
        return _own_blocks(trace.prompt_tokens, size)
    assert trace.block_tokens is not None
    return reblock(trace.extra["blocks"], trace.prompt_tokens, trace.block_tokens, size)


def _own_blocks(prompt_tokens: Ints, block_tokens: int) -> Iterable[list[int]]:
    ends = np.cumsum(-(-prompt_tokens // block_tokens)).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield list(range(start, end))
