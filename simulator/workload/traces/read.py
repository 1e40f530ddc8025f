"""Read a recorded trace, or only its lengths, from a file of any known format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from simulator.errors import InputError
from simulator.words import counted
from simulator.workload.requests import Ints
from simulator.workload.streams import Streams
from simulator.workload.traces.blocks import with_block_rule
from simulator.workload.traces.cells import Elapsed, Label, Stamp
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.own import OWN, OWN_LENGTHS, with_columns
from simulator.workload.traces.records import column_names
from simulator.workload.traces.registry import few, find_format
from simulator.workload.traces.roles import in_our_terms
from simulator.workload.traces.servegen import NAME as SERVEGEN
from simulator.workload.traces.servegen import draw_servegen
from simulator.workload.traces.sessions import in_sessions
from simulator.workload.traces.source import Source
from simulator.workload.traces.table import OnBadRow, read_table, summary
from simulator.workload.traces.texts import holds_texts, text_lengths
from simulator.workload.traces.trace import Trace, arrivals_in_order

DRAWN = 100_000  # requests of a ServeGen folder that are looked at

Turns = Literal["wait", "as_recorded"]

# Roles that go on with a trace; any other column is only read to check the rows.
EXTRA = (
    "max_tokens", "priority", "id", "class_name", "blocks", "turn", "think_s", "prefix_tokens",
    "fork", "join", "join_s", "group", "group_tokens", "adapter",
)  # fmt: skip


def read_trace(
    path: Path | str,
    format: str = "auto",
    *,
    on_bad_row: OnBadRow = "error",
    class_column: str | None = None,
    block_tokens: int | None = None,
    turns: Turns = "wait",
    columns: Mapping[str, str] | None = None,
    time_unit: str = "s",
) -> Trace:
    """Read a recorded trace.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet; gzip and zstd are unpacked.  Of a folder of ServeGen's
        the first 100,000 requests are drawn, with seed 0.
    format : a name of `FORMATS`, or "auto": told by the columns.
    on_bad_row : "error" stops at the first bad row, "skip" leaves them out and counts.
    class_column : column that names the class of each request.
    columns, time_unit : what the own table's columns are called in this file, and the unit of
        its times; for format csv.
    turns : "wait": turns of sessions wait for the turn before; "as_recorded": they arrive at
        their recorded times, whatever has become of those before.
    block_tokens : tokens that a block id stands for, where it is not what the format has.

    Raises
    ------
    InputError
        names file, line, column, value, what is allowed and what to do.
    """
    if Path(path).is_dir() or format == SERVEGEN:
        return draw_servegen(Path(path), Streams(0), limit=DRAWN)
    source = Source.of(Path(path))
    names = column_names(source)
    if columns is not None or time_unit != "s":
        layout, why = _mapped(source, names, format, columns or {}, time_unit)
    else:
        layout, why = find_format(source, names, format)
    if class_column is not None:
        layout = _with_class(source, layout, names, class_column)
    layout = with_block_rule(layout, block_tokens)
    table = read_table(source, layout, on_bad_row)
    arrival = next(f for f in layout.fields if f.role == "arrival").kind
    assert isinstance(arrival, Elapsed | Stamp)
    name = source.path.name
    notes = [f"{name}: read as {layout.name} ({layout.about}), {why}"]
    told = in_our_terms(table.columns)
    if "session" in told:
        found, late, sentences = in_sessions(told, layout, as_recorded=turns == "as_recorded")
        notes += [f"{name}: {sentence}" for sentence in sentences]
    else:
        found, late = arrivals_in_order(told, arrival.per_second)
    if turns == "as_recorded" and "session" not in told:
        notes.append(f"{name}: turns: as_recorded has no effect, since the trace has no sessions")
    bad = sum(s.count for s in table.skipped.values())
    if bad:
        notes.append(
            f"{name}: {bad:,} of {counted(table.rows_read, 'row')} left out{summary(table)}"
        )
    if late:
        notes.append(
            f"{name}: {late:,} of {counted(len(table), 'row')} came late and were sorted by arrival"
        )
    with_zone, without = (table.quirks[f"moments {w} a zone"] for w in ("with", "without"))
    if with_zone and without:
        notes.append(f"{name}: {without} of {with_zone + without} times name no zone; taken as UTC")
    for column, text in layout.unused.items():
        if column in names or table.quirks[column]:
            notes.append(f"{name}: {text}")
    return Trace(
        path=str(source.path),
        format=layout.name,
        arrival_s=found["arrival"],
        prompt_tokens=found["prompt_tokens"],
        output_tokens=found["output_tokens"],
        extra={role: found[role] for role in EXTRA if role in found},
        block_tokens=layout.block_tokens,
        rows_read=table.rows_read,
        skipped=table.skipped,
        notes=tuple(notes),
    )


class RecordedLengths(NamedTuple):
    """Lengths without times: (n,) int64 columns, >= 1, and sentences on their source."""

    prompt_tokens: Ints
    output_tokens: Ints
    notes: tuple[str, ...]


def read_lengths(path: Path | str, tokens_per_word: float | None = None) -> RecordedLengths:
    """Read the lengths of a table prompt_tokens, output_tokens, of any trace, or of texts.

    Raises
    ------
    InputError
        for the first bad row.
    """
    source = Source.of(Path(path))
    names = column_names(source)
    layout = OWN_LENGTHS
    if layout.missing(names) or source.kind not in layout.kinds:
        if holds_texts(names):
            prompt, output, how = text_lengths(source, tokens_per_word)
            return RecordedLengths(prompt, output, (f"lengths: {source.path.name}, {how}",))
        layout, _ = find_format(source, names, "auto")
    if tokens_per_word is not None:
        raise InputError(f"{source.path} tells lengths in tokens; remove lengths.tokens_per_word")
    columns = in_our_terms(read_table(source, layout, "error").columns)
    prompt, output = columns["prompt_tokens"], columns["output_tokens"]
    return RecordedLengths(
        prompt, output, (f"lengths: drawn from the {len(prompt):,} rows of {source.path.name}",)
    )


def _mapped(
    source: Source, names: list[str], format: str, columns: Mapping[str, str], time_unit: str
) -> tuple[Layout, str]:
    """The own table with other names, or another unit."""
    if format not in ("auto", OWN.name):
        raise InputError(
            f"workload.trace.format is {format}, whose columns and units are known; remove "
            f"columns and time_unit, or use format: {OWN.name}"
        )
    layout = with_columns(columns, time_unit)
    missing = [name for name in columns.values() if name not in names] or layout.missing(names)
    if missing:
        raise InputError(
            f"{source.path} has no column {', '.join(missing)} (workload.trace.columns); it has "
            f"{few(names)}"
        )
    return layout, "with the columns given"


def _with_class(source: Source, layout: Layout, names: list[str], column: str) -> Layout:
    field = Field("class_name", (column,), Label())
    if field.find(names) is None:
        raise InputError(
            f"{source.path} has no column {column!r} (class_column); it has {few(names)}"
        )
    return replace(layout, fields=(*layout.fields, field))
