"""A recorded trace in the simulator's terms, and windows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.layout import Columns
from simulator.workload.traces.table import Skipped


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Requests as they were recorded, in order of arrival, the first at 0.

    Attributes
    ----------
    path, format : the file and its format.
    arrival_s : (n,) float64, not decreasing; equal arrivals keep the order of the file.
    prompt_tokens, output_tokens : (n,) int64, >= 1
    extra : further columns by role (max_tokens, priority, id, class_name, blocks), as recorded;
        blocks are the ids of a prompt's blocks as `cells.block_bytes` has them.  Traces of
        sessions have ``turn`` (a row with turn > 0 follows the row before it), ``think_s``
        and ``prefix_tokens``, see `sessions`; arrival_s is then the session's start.  Sub-agents
        have ``fork``, how many rows before its first turn the turn stands that it comes after
        (negative; 0: no sub-agent), and ``join``, how many rows from its last turn the turn
        stands that waits for it (0: none), ``join_s`` after its end.
    block_tokens : tokens that a block id stands for.
    rows_read : rows in the file, bad ones included.
    skipped : bad rows by what is wrong with them.
    notes : sentences on what was found and done: nothing is changed without one.
    """

    path: str
    format: str
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    extra: dict[str, NDArray[Any]]
    rows_read: int
    skipped: dict[str, Skipped]
    notes: tuple[str, ...]
    block_tokens: int | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def starts(self) -> Ints:
        """Rows that arrive by themselves: all but later turns of sessions and sub-agents."""
        turn = self.extra.get("turn")
        if turn is None:
            return np.arange(len(self))
        return np.flatnonzero((turn == 0) & (self.extra.get("fork", turn) == 0))

    def take_sessions(self, chosen: Ints, arrival_s: Floats) -> Trace:
        """These of the `starts`, each with all of its session, starting at these times."""
        starts = self.starts
        counts = np.diff(starts, append=len(self))[chosen]
        ends = np.cumsum(counts)
        offset = np.repeat(starts[chosen] - (ends - counts), counts)
        return self.take(np.arange(len(offset)) + offset, np.repeat(arrival_s, counts))

    def take(self, rows: Ints, arrival_s: Floats) -> Trace:
        """These rows, arriving at these times."""
        return replace(
            self,
            arrival_s=arrival_s,
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            extra={role: values[rows] for role, values in self.extra.items()},
        )

    def window(
        self, *, skip_s: float = 0.0, duration_s: float | None = None, limit: int | None = None
    ) -> Trace:
        """The part that starts `skip_s` into the recording, which becomes time 0.

        `duration_s` is recorded time and its end is outside; `limit` counts requests.
        """
        first = int(np.searchsorted(self.arrival_s, skip_s, "left"))
        end = len(self)
        if duration_s is not None:
            end = int(np.searchsorted(self.arrival_s, skip_s + duration_s, "left"))
        if limit is not None:
            end = min(end, first + limit)
        rows = np.arange(first, max(first, end))
        return self.take(rows, self.arrival_s[rows] - skip_s)


def arrivals_in_order(columns: Columns, per_second: float) -> tuple[Columns, int]:
    """Columns sorted by arrival, the first at 0 and in seconds; how many rows were late.

    A row is late when an earlier row of the file has a later arrival.
    """
    moments = columns["arrival"]
    late = int(np.count_nonzero(moments < np.maximum.accumulate(moments)))
    if late:
        order = np.argsort(moments, kind="stable")
        columns = {role: values[order] for role, values in columns.items()}
        moments = columns["arrival"]
    # Subtract first: moments since 1970 in ns are whole numbers that a float would round.
    return {**columns, "arrival": (moments - moments[0]) / per_second}, late
