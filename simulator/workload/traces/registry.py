"""The formats that are read, and how a file's format is found."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from simulator.errors import InputError
from simulator.workload.requests import Ints
from simulator.workload.traces.azure import AZURE
from simulator.workload.traces.cells import Elapsed, Label, Stamp
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.own import OWN, OWN_LENGTHS
from simulator.workload.traces.reading import OnBadRow, read_table, summary
from simulator.workload.traces.records import column_names
from simulator.workload.traces.source import Source
from simulator.workload.traces.trace import Trace, arrivals_in_order

FORMATS: dict[str, Layout] = {layout.name: layout for layout in (AZURE, OWN)}


def read_trace(
    path: Path | str,
    format: str = "auto",
    *,
    on_bad_row: OnBadRow = "error",
    class_column: str | None = None,
) -> Trace:
    """Read a recorded trace.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet; gzip and zstd are unpacked.
    format : a name of `FORMATS`, or "auto": told by the columns.
    on_bad_row : "error" stops at the first bad row, "skip" leaves them out and counts.
    class_column : column that names the class of each request.

    Raises
    ------
    InputError
        names file, line, column, value, what is allowed and what to do.
    """
    source = Source.of(Path(path))
    names = column_names(source)
    layout, why = find_format(source, names, format)
    if class_column is not None:
        layout = _with_class(source, layout, names, class_column)
    table = read_table(source, layout, on_bad_row)
    arrival = next(f for f in layout.fields if f.role == "arrival").kind
    assert isinstance(arrival, Elapsed | Stamp)
    columns, late = arrivals_in_order(table.columns, arrival.per_second)

    name = source.path.name
    notes = [f"{name}: read as {layout.name}, {why}"]
    bad = sum(s.count for s in table.skipped.values())
    if bad:
        notes.append(f"{name}: {bad} of {table.rows_read} rows left out{summary(table)}")
    if late:
        notes.append(f"{name}: {late} of {len(table)} rows came late and were sorted by arrival")
    with_zone, without = (table.quirks[f"moments {w} a zone"] for w in ("with", "without"))
    if with_zone and without:
        notes.append(f"{name}: {without} of {with_zone + without} times name no zone; taken as UTC")
    notes += [f"{name}: {text}" for column, text in layout.unused.items() if column in names]
    main = ("arrival", "prompt_tokens", "output_tokens")
    return Trace(
        path=str(source.path),
        format=layout.name,
        arrival_s=columns["arrival"],
        prompt_tokens=columns["prompt_tokens"],
        output_tokens=columns["output_tokens"],
        extra={role: values for role, values in columns.items() if role not in main},
        rows_read=table.rows_read,
        skipped=table.skipped,
        notes=tuple(notes),
    )


class RecordedLengths(NamedTuple):
    """Lengths without times: (n,) int64 columns, >= 1, and sentences on their source."""

    prompt_tokens: Ints
    output_tokens: Ints
    notes: tuple[str, ...]


def read_lengths(path: Path | str) -> RecordedLengths:
    """Read the lengths of a table prompt_tokens, output_tokens, or of any trace.

    Raises
    ------
    InputError
        for the first bad row.
    """
    source = Source.of(Path(path))
    names = column_names(source)
    layout = OWN_LENGTHS
    if layout.missing(names) or source.kind not in layout.kinds:
        layout, _ = find_format(source, names, "auto")
    columns = read_table(source, layout, "error").columns
    prompt, output = columns["prompt_tokens"], columns["output_tokens"]
    return RecordedLengths(
        prompt, output, (f"lengths: drawn from the {len(prompt):,} rows of {source.path.name}",)
    )


def find_format(source: Source, names: list[str], format: str) -> tuple[Layout, str]:
    """The layout for a file with these columns, and the reason for it."""
    if format != "auto":
        return _named(source, names, format), "as asked"
    matching = [
        layout
        for layout in FORMATS.values()
        if source.kind in layout.kinds and not layout.missing(names)
    ]
    settled = [la for la in matching if set(la.distinct) & set(names)] or matching
    if len(settled) == 1:
        return settled[0], f"since it has {', '.join(settled[0].required)}"
    if settled:
        raise InputError(
            f"{source.path}: its columns fit {' and '.join(la.name for la in settled)} alike "
            f"({'; '.join(f'{la.name}: {la.about}' for la in settled)}); say which with format"
        )
    known = "; ".join(
        f"{la.name}: {', '.join(la.required)}" for la in FORMATS.values() if source.kind in la.kinds
    )
    raise InputError(
        f"{source.path}: no known trace format has its columns ({_few(names)}); known are {known}; "
        "rename the columns, or check that the first line is the header"
    )


def _named(source: Source, names: list[str], format: str) -> Layout:
    layout = FORMATS.get(format)
    if layout is None:
        close = difflib.get_close_matches(format, FORMATS, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"trace format {format!r} is not known; {hint}allowed: auto, {', '.join(FORMATS)}"
        )
    if source.kind not in layout.kinds:
        raise InputError(
            f"{source.path} is {source.kind}, but format {format} is written as "
            f"{' or '.join(layout.kinds)}; use format: auto, or another file"
        )
    missing = layout.missing(names)
    if missing:
        raise InputError(
            f"{source.path} has no column {', '.join(missing)}, which format {format} needs; "
            f"it has {_few(names)}; use format: auto, or rename the columns"
        )
    return layout


def _with_class(source: Source, layout: Layout, names: list[str], column: str) -> Layout:
    field = Field("class_name", (column,), Label())
    if field.find(names) is None:
        raise InputError(
            f"{source.path} has no column {column!r} (class_column); it has {_few(names)}"
        )
    return replace(layout, fields=(*layout.fields, field))


def _few(names: list[str]) -> str:
    """Names for a sentence, without flooding it."""
    shown = [name if len(name) <= 40 else name[:37] + "..." for name in names[:10]]
    shown = [name if name.isprintable() else ascii(name) for name in shown]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
