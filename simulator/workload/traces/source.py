"""A trace file as it lies on disk: is it there, what kind is it, how is it opened."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from simulator.errors import InputError

Kind = Literal["csv", "json", "jsonl", "parquet"]

HEAD_BYTES = 1 << 16

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}

# What Arrow and Python raise for damaged bytes.
UNREADABLE = (OSError, EOFError, UnicodeError, pa.ArrowException)

# What people pass by mistake, by its first bytes.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"BZh": "compressed by bzip2: unpack it (gzip and zstd are read as they are)",
    b"\xfd7zXZ": "compressed by xz: unpack it (gzip and zstd are read as they are)",
    b"%PDF": "a PDF document",
    b"\x89PNG": "a picture",
    b"SQLite format 3": "an SQLite database: export the table as CSV",
    b"\x89HDF": "an HDF5 file: save the table as Parquet",
    b"ARROW1": "a Feather file: save the table as Parquet",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
    b"<": "an HTML or XML page, not the data itself: download the raw file",
}


@dataclass(frozen=True)
class Source:
    """A file that can be read as a table.

    Attributes
    ----------
    path : where it is.
    kind : how rows are written in it.
    compression : "gzip", "zstd" or None; found by content, whatever the name says.
    """

    path: Path
    kind: Kind
    compression: str | None

    @classmethod
    def of(cls, path: Path) -> Source:
        """Look at the file; `InputError` when no table can be read from it."""
        _require_file(path)
        with path.open("rb") as file:
            first = file.read(8)
        packed = (c for magic, c in COMPRESSIONS.items() if first.startswith(magic))
        compression = next(packed, None)
        try:
            with open_bytes(path, compression) as stream:
                head = stream.read(HEAD_BYTES)
        except UNREADABLE as error:
            raise InputError(
                f"{path}: cannot be unpacked ({one_line(error)}); the {compression or 'file'} data "
                "are damaged or cut short, copy the file again"
            ) from error
        return cls(path, _kind(path, head), compression)

    def open(self) -> pa.NativeFile:
        """Decompressed bytes from the start, as a stream."""
        return open_bytes(self.path, self.compression)


def open_bytes(path: Path, compression: str | None) -> pa.NativeFile:
    """Open `path` for reading, unpacking as it goes."""
    return pa.input_stream(str(path), compression=compression)


def one_line(error: Exception) -> str:
    """What a library says, to put into a sentence."""
    return " ".join(str(error).split())


def _require_file(path: Path) -> None:
    if path.is_file():
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; name the trace file in it")
    if path.exists():
        raise InputError(f"{path} is not a regular file; name a trace file")
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else "check the path"
    raise InputError(f"{path}: there is no such file; {hint}")


def _kind(path: Path, head: bytes) -> Kind:
    if head.startswith(b"PAR1"):
        return "parquet"
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{path} is {what}; a trace is CSV, JSON lines or Parquet")
    if b"\0" in head:
        raise InputError(f"{path} is a binary file; a trace is CSV, JSON lines or Parquet")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        raise InputError(f"{path} is empty; a trace has a header line and a row for each request")
    if text.startswith(b"["):
        return "json"
    return "jsonl" if text.startswith(b"{") else "csv"
