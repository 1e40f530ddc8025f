"""requests.parquet and steps.parquet, with the meaning of each column inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulator.metrics.frames import Column, request_columns, step_columns
from simulator.metrics.glossary import GLOSSARY, REQUEST_COLUMNS, STEP_COLUMNS
from simulator.recording import Recording
from simulator.report.files import write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

    from simulator.metrics.attribution import Attribution


def write_requests(
    recording: Recording, path: Path, attribution: Attribution | None = None
) -> None:
    """One row per request."""
    _write(request_columns(recording, attribution), REQUEST_COLUMNS, path)


def write_steps(recording: Recording, path: Path) -> None:
    """One row per engine step."""
    _write(step_columns(recording), STEP_COLUMNS, path)


def _write(columns: dict[str, Column], glossary: dict[str, str], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [_array(column) for column in columns.values()]
    schema = pa.schema(
        [
            pa.field(name, array.type, metadata={"description": glossary[name]})
            for name, array in zip(columns, arrays, strict=True)
        ]
    )
    table = pa.Table.from_arrays(arrays, schema=schema)
    categories = [f.name for f in schema if pa.types.is_dictionary(f.type)]
    write_atomically(
        path,
        lambda temporary: pq.write_table(
            table,
            temporary,
            compression="snappy",
            use_dictionary=categories,
        ),
    )


def _array(column: Column) -> pa.Array:
    """NumPy column as Arrow, without a copy of the values; NaN becomes null."""
    import pyarrow as pa

    if isinstance(column, tuple):
        codes, names = column
        return pa.DictionaryArray.from_arrays(_array(codes.astype(np.int8)), list(names))
    if column.dtype == object:
        return pa.array(column.tolist())
    # Not pa.array: it imports pandas to look for its types.
    column = np.ascontiguousarray(column)
    present = None
    if column.dtype == np.float64 and np.isnan(column).any():
        present = pa.py_buffer(np.packbits(~np.isnan(column), bitorder="little"))
    values = pa.py_buffer(column)
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [present, values])


def columns_markdown() -> str:
    """The glossary of everything that a run writes, as a Markdown page."""
    parts = ["# What the files of a run hold", ""]
    for title, entries in (
        ("requests.parquet", REQUEST_COLUMNS),
        ("steps.parquet", STEP_COLUMNS),
        ("summary.json", GLOSSARY),
    ):
        parts += [f"## {title}", "", "| column | meaning |", "|---|---|"]
        parts += [f"| `{name}` | {meaning} |" for name, meaning in entries.items()]
        parts.append("")
    parts[parts.index("## summary.json") + 2] = "| key | meaning |"
    return "\n".join(parts)
