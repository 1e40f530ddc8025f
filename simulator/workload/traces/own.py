"""A table with the simulator's own column names: what to write when no format fits.

arrival_s, prompt_tokens, output_tokens and, as far as they are known, max_tokens,
priority, adapter (of LoRA; empty: the model itself) and id; for sessions also session,
think_time_s (from the end of the turn before) and prefix_tokens (leading tokens of the prompt
that are those of the turn before; else all that was said, or none where the prompt is
shorter).  Rows of a session are in the order of its turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulator.errors import InputError
from simulator.workload.content import WHOLE_HISTORY
from simulator.workload.requests import LARGEST_COUNT
from simulator.workload.traces.cells import Count, Elapsed, Label, Stamp
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.sessions import UNKNOWN

LENGTHS = (
    Field("prompt_tokens", ("prompt_tokens",), Count()),
    Field("output_tokens", ("output_tokens",), Count()),
)
OPTIONS = (
    Field("max_tokens", ("max_tokens",), Count(), required=False, default=0),
    Field("priority", ("priority",), Count(-LARGEST_COUNT), required=False, default=0),
    Field("id", ("id", "request_id"), Label(), required=False, default=""),
    Field("adapter", ("adapter",), Label(), required=False, default=""),
    Field("session", ("session",), Label(), required=False, default=""),
    Field("think_before", ("think_time_s",), Elapsed(least=0), required=False, default=UNKNOWN),
    Field("prefix_tokens", ("prefix_tokens",), Count(0), required=False, default=WHOLE_HISTORY),
)

OWN = Layout(
    name="csv",
    about="own table, times in s",
    kinds=("csv", "jsonl", "json", "parquet"),
    fields=(Field("arrival", ("arrival_s",), Elapsed()), *LENGTHS, *OPTIONS),
)

# Not a trace: what `lengths: {distribution: empirical}` reads.
OWN_LENGTHS = Layout(
    name="lengths",
    about="own table: prompt_tokens, output_tokens",
    kinds=OWN.kinds,
    fields=LENGTHS,
)

TIME_UNITS: dict[str, Elapsed | Stamp] = {
    "s": Elapsed(),
    "ms": Elapsed(1e3),
    "us": Elapsed(1e6),
    "ns": Elapsed(1e9),
    "date": Stamp(),
}


def with_columns(columns: Mapping[str, str], time_unit: str) -> Layout:
    """The own table under other names: of ours, as in `OWN`, to those of the file.

    The unit is that of the arrivals; think times stay seconds.
    """
    known = {f.names[0]: f for f in OWN.fields}
    for name in columns:
        if name not in known:
            raise InputError(
                f"workload.trace.columns: {name!r} is no column of ours; they are "
                f"{', '.join(known)}"
            )
    fields = [replace(f, names=(columns.get(name, name),)) for name, f in known.items()]
    fields = [replace(f, kind=TIME_UNITS[time_unit]) if f.role == "arrival" else f for f in fields]
    return replace(OWN, about=f"columns as given, times in {time_unit}", fields=tuple(fields))
