"""Rows of a trace file one by one, each with its place in the file, good or bad."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from simulator.errors import InputError
from simulator.workload.traces.source import UNREADABLE, Source, one_line

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True)
class Record:
    """One row of a file.

    Attributes
    ----------
    place : where it is, for a sentence.
    cells : by column name; none where there is a fault.
    fault : what is wrong with the row as a whole, or None.
    spans_lines : whether a quoted cell goes over the end of a line.
    """

    place: str
    cells: Mapping[str, Any]
    fault: str | None = None
    spans_lines: bool = False


class _Lines:
    """Lines of a text stream, remembering whether the last one was ended."""

    def __init__(self, stream: pa.NativeFile, newline: str) -> None:
        self.ended = True
        self._text = io.TextIOWrapper(
            stream, encoding="utf-8-sig", errors="surrogateescape", newline=newline
        )

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.ended = line.endswith(("\n", "\r"))
            yield line


def column_names(source: Source) -> list[str]:
    """Names of the columns: the header, or the keys of the first readable record."""
    if source.kind == "csv":
        return _header(source)
    if source.kind == "parquet":
        return [str(name) for name in parquet_file(source).schema_arrow.names]
    for record in records(source):
        if record.fault is None:
            return list(record.cells)
    raise InputError(
        f"{source.path} starts like JSON, but no line of it holds an object; "
        'write one request per line, as {"timestamp": 0, "input_length": 10, ...}, or give a '
        "distribution function as workload.lengths: {distribution: cdf, file: ...}"
    )


def records(source: Source) -> Iterator[Record]:
    """All rows in the order of the file; blank lines are passed over."""
    reader = {"csv": _csv, "jsonl": _json_lines, "json": _json_array, "parquet": _parquet}
    try:
        yield from reader[source.kind](source)
    except UNREADABLE as error:
        raise damaged(source, error) from error


def damaged(source: Source, error: Exception) -> InputError:
    """The error for a file that ends in the middle of something."""
    return InputError(
        f"{source.path}: cannot be read to its end ({one_line(error)}); the file is damaged or cut "
        "short, copy it again"
    )


def _header(source: Source) -> list[str]:
    with source.open() as stream:
        reader = csv.reader(_Lines(stream, ""))
        try:
            header = next((row for row in reader if row), [])
        except (csv.Error, *UNREADABLE) as error:
            raise InputError(
                f"{source.path}, line 1: no header can be read ({one_line(error)})"
            ) from error
    names = [name.strip() for name in header]
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise InputError(
                f"{source.path}, line 1: two columns are called {name!r}; rename or remove one"
            )
    return names


def _csv(source: Source) -> Iterator[Record]:
    with source.open() as stream:
        yield from csv_records(stream, _header(source), source.path)


def csv_records(
    stream: pa.NativeFile, names: list[str], path: Path, *, first_line: int = 0
) -> Iterator[Record]:
    """Rows of CSV text: of a file from its header on, or from line `first_line` on."""
    lines = _Lines(stream, "")
    reader = csv.reader(lines)
    past_header = first_line > 0
    before = max(first_line - 1, 0)
    while True:
        line = before + reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {line}: is not CSV ({one_line(error)}); "
                "look for a quote that is never closed"
            ) from error
        if row is None:
            return
        if not row:
            continue
        if not past_header:
            past_header = True
            continue
        last = before + reader.line_num
        place = f"line {line}"
        if last > line:
            place = f"lines {line} to {last}, which one quoted cell spans"
        if len(row) == len(names):
            yield Record(place, dict(zip(names, row, strict=True)), spans_lines=last > line)
            continue
        fault = f"has {'fewer' if len(row) < len(names) else 'more'} cells than the header"
        cut = "" if lines.ended else " (the file ends inside this line)"
        yield Record(place, {}, fault + cut, last > line)


def _json_lines(source: Source) -> Iterator[Record]:
    with source.open() as stream:
        lines = _Lines(stream, "\n")
        for number, line in enumerate(lines, 1):
            if line.isspace():
                continue
            cut = "" if lines.ended else " (the file ends inside this line)"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                yield Record(f"line {number}", {}, f"is not valid JSON{cut}")
            else:
                yield _as_record(f"line {number}", value)


def _json_array(source: Source) -> Iterator[Record]:
    with source.open() as stream:
        try:
            rows = json.loads(stream.read())
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{source.path} starts like a JSON list but is not valid JSON ({one_line(error)}); "
                "correct it, or write one request per line"
            ) from error
    for number, value in enumerate(rows, 1):
        yield _as_record(f"row {number}", value)


def _as_record(place: str, value: object) -> Record:
    if not isinstance(value, dict):
        return Record(place, {}, "is not a JSON object")
    return Record(place, value)


def _parquet(source: Source) -> Iterator[Record]:
    number = 0
    for batch in parquet_file(source).iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield Record(f"row {number}", row)


def parquet_file(source: Source) -> pq.ParquetFile:
    """The file, its metadata read."""
    import pyarrow.parquet as pq  # most traces are not Parquet

    try:
        return pq.ParquetFile(source.path)
    except UNREADABLE as error:
        raise InputError(
            f"{source.path} starts like Parquet but cannot be read ({one_line(error)}); "
            "copy it again"
        ) from error
