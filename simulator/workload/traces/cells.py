"""Kinds of cells: how one value is written in a trace, and what is wrong with a bad one.

Each kind reads in two ways.  `take` checks a whole Arrow column at once and declines
(None) at the slightest doubt; `parse` reads one cell and says what is wrong with it.
Whatever `take` accepts, `parse` reads to the same value.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.workload.requests import LARGEST_COUNT

Cell = object  # str from CSV; whatever JSON or Parquet hold otherwise; None: absent

_WHOLE = re.compile(r"[+-]?[0-9]+|0[xX][0-9a-fA-F]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_STAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r" ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?",
    re.ASCII,
)
_UNIX_EPOCH = date(1970, 1, 1).toordinal()


class BadCell(Exception):
    """A cell that breaks its kind's rule; the argument says how, after the column's name."""


@dataclass(frozen=True)
class Count:
    """A whole number of something, from `least` to a billion.

    A float that is exactly whole (``10.0``, ``1.5e3``) counts, since spreadsheets and
    data frames write them; a string in a JSON file does not.
    """

    least: int = 1

    arrow_type = pa.int64()
    dtype = np.int64

    def take(self, column: pa.ChunkedArray) -> NDArray[Any] | None:
        if column.null_count or not pa.types.is_integer(column.type):
            return None
        values = _numpy(column.cast(pa.int64()))
        if len(values) and (values.min() < self.least or values.max() > LARGEST_COUNT):
            return None
        return values

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> int:
        value = _number(cell, text=text, whole=True)
        if value is None or value != value:
            raise BadCell("is not a number")
        if value < self.least:
            raise BadCell(f"is less than {self.least}")
        if value > LARGEST_COUNT:
            raise BadCell(f"is more than {LARGEST_COUNT:,}, the largest count that makes sense")
        if int(value) != value:
            raise BadCell("is not a whole number")
        return int(value)


@dataclass(frozen=True)
class Elapsed:
    """A moment as a number; `per_second` of them make a second."""

    per_second: float = 1.0
    least: float = -1e20  # ns since 1970 are 1.7e18

    arrow_type = pa.float64()
    dtype = np.float64
    largest = 1e20

    @property
    def rule(self) -> str:
        """What is wrong with a bad one."""
        return f"is not a number from {self.least:g} to 1e20".replace("e+", "e")

    def take(self, column: pa.ChunkedArray) -> NDArray[Any] | None:
        number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        if column.null_count or not number:
            return None
        values = _numpy(column.cast(pa.float64(), safe=False))
        good = (values >= self.least) & (values <= self.largest)
        return values if good.all() else None

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> float:
        value = _number(cell, text=text, whole=False)
        if value is None or not self.least <= value <= self.largest:
            raise BadCell(self.rule)
        return float(value)


@dataclass(frozen=True)
class Stamp:
    """A date and time of day, ISO 8601, with or without a zone, kept as ns since 1970 UTC.

    A moment without a zone is taken as UTC; mixing both in a file is legal and told.
    From 1970 on, so that the time between any two moments fits int64.
    """

    per_second = 1e9
    arrow_type = pa.timestamp("ns")
    dtype = np.int64
    rule = "is not a date and time such as 2023-11-16 18:15:46.6805900 (1970 to 2261)"

    def take(self, column: pa.ChunkedArray) -> NDArray[Any] | None:
        if column.null_count or not pa.types.is_timestamp(column.type):
            return None
        try:
            moments = column.cast(pa.timestamp("ns", column.type.tz))
        except pa.ArrowInvalid:
            return None
        values = _numpy(moments.cast(pa.int64()))
        return values if not len(values) or values.min() >= 0 else None

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> int:
        written = cell.isoformat(" ") if isinstance(cell, datetime) else cell
        match = _STAMP.fullmatch(written.strip()) if isinstance(written, str) else None
        if match is None:
            raise BadCell(self.rule)
        day, hours, minutes, seconds, fraction, zone = match.groups()
        days, offset = _days_since_1970(day), _offset_minutes(zone)
        hour, minute, second = int(hours or 0), int(minutes or 0), int(seconds or 0)
        if days is None or offset is None or hour > 23 or minute > 59 or second > 59:
            raise BadCell(self.rule)
        quirks["moments with a zone" if zone else "moments without a zone"] += 1
        whole_s = (days * 24 + hour) * 3600 + (minute - offset) * 60 + second
        return whole_s * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


@dataclass(frozen=True)
class Label:
    """A name: of a class, a session, a request."""

    arrow_type = pa.string()
    dtype = np.object_
    rule = "is missing"

    def take(self, column: pa.ChunkedArray) -> NDArray[Any] | None:
        if column.null_count or not pa.types.is_string(column.type):
            return None
        values = column.to_pylist()
        return None if "" in values else np.array(values, object)

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> str:
        if cell is None or isinstance(cell, float | list | dict) or cell == "":
            raise BadCell(self.rule)
        try:
            str(cell).encode()
        except UnicodeEncodeError as error:
            raise BadCell("is not UTF-8 text") from error
        return str(cell)


@dataclass(frozen=True)
class BlockIds:
    """Names of the blocks of a prompt: whole numbers, kept as the bytes of 64 bits each."""

    arrow_type = pa.list_(pa.int64())
    dtype = np.object_
    rule = "is not a list of whole numbers of at most 64 bits"

    def take(self, column: pa.ChunkedArray) -> NDArray[Any] | None:
        return None  # lists are read one by one

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> bytes:
        if not isinstance(cell, list):
            raise BadCell("is not a list")
        if not cell:
            raise BadCell("is empty; leave it out where the content of a prompt is not known")
        if not all(type(item) is int and -(1 << 63) <= item < 1 << 64 for item in cell):
            raise BadCell(self.rule)
        return block_bytes(cell)


@dataclass(frozen=True)
class BlockRuns(BlockIds):
    """Block ids as runs: [first, number] for first, first + 1, ..."""

    rule = "is not a list of [first block id, number of ids]"

    def parse(self, cell: Cell, quirks: Counter[str], *, text: bool) -> bytes:
        if not isinstance(cell, list):
            raise BadCell("is not a list")
        ids: list[int] = []
        for run in cell:
            if not (isinstance(run, list) and [type(item) for item in run] == [int, int]):
                raise BadCell(self.rule)
            first, count = run
            if not (0 <= first < 1 << 62 and 0 <= count <= LARGEST_COUNT // 16):
                raise BadCell(self.rule)
            ids += range(first, first + count)
        return block_bytes(ids)


def block_bytes(ids: Iterable[int]) -> bytes:
    """Block ids as `BlockIds` keeps them."""
    return array("Q", [item & 0xFFFF_FFFF_FFFF_FFFF for item in ids]).tobytes()


def block_count(ids: bytes) -> int:
    """How many block ids these bytes hold."""
    return len(ids) // 8


CellKind = Count | Elapsed | Stamp | Label | BlockIds


def _numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """Values of a column of numbers; Arrow's own way loads pandas, longer than a trace takes."""
    chunks = [np.from_dlpack(chunk) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, column.type.to_pandas_dtype())


def _number(cell: Cell, *, text: bool, whole: bool) -> float | int | None:
    """The number in a cell, None when there is none; NaN and infinities pass."""
    if isinstance(cell, bool):
        return None
    if isinstance(cell, int | float):
        return cell
    if not text or not isinstance(cell, str) or len(cell) > 400:
        return None
    if cell.isascii() and cell.isdigit():
        return int(cell)
    cell = cell.strip(" \t")
    if whole and _WHOLE.fullmatch(cell):
        return int(cell, 16 if cell[:2] in ("0x", "0X") else 10)
    return float(cell) if _NUMBER.fullmatch(cell) else None


@lru_cache(maxsize=1024)
def _days_since_1970(day: str) -> int | None:
    """Days from 1970-01-01 to a day written so; None outside 1970 to 2261."""
    try:
        parsed = date.fromisoformat(day)
    except ValueError:
        return None
    return parsed.toordinal() - _UNIX_EPOCH if 1970 <= parsed.year <= 2261 else None


@lru_cache(maxsize=1024)
def _offset_minutes(zone: str | None) -> int | None:
    """Minutes east of UTC of ``Z``, ``+02``, ``-0730``, ``+02:00``; None out of range."""
    if zone in (None, "Z"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)
