"""From the engine's logs to a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from simulator import recording
from simulator.engine import state
from simulator.engine.state import NUM_EVENTS, NUM_GAPS, NUM_LOSSES, NUM_STEPS, Engine
from simulator.recording import InterTokenGaps, Losses, Outcome, Recording, Steps
from simulator.workload.requests import Requests

OUTCOME_COLUMNS = (
    "reject_reason", "replica", "arrival_s", "admitted_s", "first_token_s", "finished_s",
    "preemptions", "recomputed_tokens", "cached_tokens",
)  # fmt: skip

FIRST_ROWS = 1 << 10  # of a column, before it grows
# Rows of the log that are taken apart at once: they stay in the cache for all columns.
STRETCH = 1 << 12


class Growing:
    """A column that rows are added to.

    Memory that no row has reached is never touched, nor is that of a column of zeros: most
    runs have some, such as padding or preemptions.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._rows: NDArray[Any] = np.zeros(FIRST_ROWS, dtype)
        self._used = 0
        self._zeros = True

    def extend(self, values: NDArray[Any]) -> None:
        """Append a copy of `values`."""
        end = self._used + len(values)
        if end > len(self._rows):
            larger = np.zeros(max(end, 2 * len(self._rows)), self._rows.dtype)
            if not self._zeros:
                larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        self._zeros = self._zeros and not values.any()
        if not self._zeros:
            self._rows[self._used : end] = values
        self._used = end

    def rows(self) -> NDArray[Any]:
        """All rows so far."""
        return self._rows[: self._used]


class LogBook:
    """What was drained from an engine's logs so far, column by column.

    Attributes
    ----------
    keep : picks the events to keep of those drained; None keeps all.
    """

    def __init__(self) -> None:
        self.keep: Callable[[NDArray[Any]], NDArray[Any]] | None = None
        self._columns = {field.name: Growing(state.STEP[field.name]) for field in fields(Steps)}
        self._step_gaps_s, self._lone_gaps_s = Growing(np.float64), Growing(np.float64)
        self._gap_counts, self._gap_replicas = Growing(np.int32), Growing(np.int32)
        self._losses = {field.name: Growing(state.LOSS[field.name]) for field in fields(Losses)}
        self._events: list[NDArray[Any]] = []

    def drain(self, engine: Engine) -> None:
        """Copy the logs and empty them."""
        counters = engine.counters
        rows = engine.steps[: counters[NUM_STEPS]]
        for start in range(0, len(rows), STRETCH):
            stretch = rows[start : start + STRETCH]
            for name, column in self._columns.items():
                column.extend(stretch[name])
        some = rows["streaming_seqs"] > 0
        self._step_gaps_s.extend(rows["gap_s"][some])
        self._gap_counts.extend(rows["streaming_seqs"][some])
        if len(engine.replicas) > 1:
            self._gap_replicas.extend(rows["replica"][some])
        self._lone_gaps_s.extend(engine.gaps_s[: counters[NUM_GAPS]])
        events = engine.events[: counters[NUM_EVENTS]].copy()
        self._events.append(events if self.keep is None else self.keep(events))
        for name, column in self._losses.items():
            column.extend(engine.losses[: counters[NUM_LOSSES]][name])
        for place in (NUM_STEPS, NUM_GAPS, NUM_EVENTS, NUM_LOSSES):
            counters[place] = 0

    def events(self, engine: Engine) -> NDArray[Any]:
        """All events so far, in order."""
        self.drain(engine)
        return np.concatenate(self._events)

    def recording(self, engine: Engine, requests: Requests, end_s: float) -> Recording:
        """Make the recording of everything so far."""
        self.drain(engine)
        columns = {name: column.rows() for name, column in self._columns.items()}
        if len(engine.replicas) > 1:  # per replica the rows are in order already
            order = np.argsort(columns["replica"], kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        adapter_loads = int(engine.replicas["adapter_loads"].sum())
        gaps = self._gaps(in_turns=len(engine.replicas) > 1)
        return Recording(
            requests=requests,
            outcome=_outcome(engine, end_s),
            steps=Steps(**columns),
            gaps=gaps,
            losses=Losses(**{name: column.rows() for name, column in self._losses.items()}),
            end_s=end_s,
            usable_kv_blocks=int(engine.limits["usable_blocks"][0]),
            block_size=int(engine.limits["block_size"][0]),
            replicas=len(engine.replicas),
            adapter_loads=adapter_loads,
            adapter_load_s=adapter_loads * float(engine.limits["lora_load_s"][0]),
            transfer_s=float(engine.replicas["transfer_s"].sum()),
            stored_blocks=int(engine.replicas["stored_blocks"].sum()),
            loaded_blocks=int(engine.replicas["loaded_blocks"].sum()),
        )

    def _gaps(self, in_turns: bool) -> InterTokenGaps:
        """All gaps so far; whose replicas ran in turns, in an order that no turn changes."""
        lone_gaps_s = self._lone_gaps_s.rows()
        self._lone_gaps_s = Growing(np.float64)
        if in_turns:
            lone_gaps_s = np.sort(lone_gaps_s)
            order = np.argsort(self._gap_replicas.rows(), kind="stable")
            for column in (self._step_gaps_s, self._gap_counts):
                column.rows()[:] = column.rows()[order]
        self._step_gaps_s.extend(lone_gaps_s)
        self._gap_counts.extend(np.ones(len(lone_gaps_s), np.int32))
        return InterTokenGaps(gap_s=self._step_gaps_s.rows(), count=self._gap_counts.rows())


def _outcome(engine: Engine, end_s: float) -> Outcome:
    table = engine.requests
    status = np.full(len(table), recording.UNFINISHED, np.int8)
    status[table["state"] == state.DONE] = recording.FINISHED
    status[table["state"] == state.REJECTED] = recording.REJECTED
    columns = {name: np.ascontiguousarray(table[name]) for name in OUTCOME_COLUMNS}
    columns["reject_reason"] = columns["reject_reason"].astype(np.int8)
    for count in ("preemptions", "recomputed_tokens", "cached_tokens"):
        columns[count] = columns[count].astype(np.int64)
    # What a client held back to the end never arrived.
    columns["arrival_s"][(status == recording.UNFINISHED) & (table["replica"] < 0)] = np.nan
    if not engine.limits["stream"][0]:  # nobody has seen anything of a batch that still runs
        columns["first_token_s"][status != recording.FINISHED] = np.nan
    known_tokens = table["known_tokens"].astype(np.int64)
    swapped_blocks = np.zeros(len(table), np.int64)
    if len(engine.swap.requests):
        swapped_blocks = np.ascontiguousarray(engine.swap.requests["moved_blocks"])
    return Outcome(
        status=status,
        swapped_blocks=swapped_blocks,
        generated_tokens=known_tokens - table["in_flight"] - table["prompt_tokens"],
        **columns,
    )
