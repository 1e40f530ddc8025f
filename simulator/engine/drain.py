"""From the engine's logs to a recording."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator import recording
from simulator.engine import state
from simulator.engine.state import NUM_EVENTS, NUM_GAPS, NUM_STEPS, Engine
from simulator.recording import InterTokenGaps, Outcome, Recording, Steps
from simulator.workload.requests import Requests

OUTCOME_COLUMNS = (
    "reject_reason", "replica", "arrival_s", "admitted_s", "first_token_s", "finished_s",
    "preemptions", "recomputed_tokens", "cached_tokens",
)  # fmt: skip


class LogBook:
    """What was drained from an engine's logs so far, column by column."""

    def __init__(self) -> None:
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in state.STEP.names or ()}
        self._gaps_s: list[NDArray[np.float64]] = []
        self._events: list[NDArray[Any]] = []

    def drain(self, engine: Engine) -> None:
        """Copy the logs and empty them."""
        counters = engine.counters
        rows = engine.steps[: counters[NUM_STEPS]]
        for name, chunks in self._columns.items():
            chunks.append(np.ascontiguousarray(rows[name]))
        self._gaps_s.append(engine.gaps_s[: counters[NUM_GAPS]].copy())
        self._events.append(engine.events[: counters[NUM_EVENTS]].copy())
        counters[NUM_STEPS] = counters[NUM_GAPS] = counters[NUM_EVENTS] = 0

    def events(self, engine: Engine) -> NDArray[Any]:
        """All events so far, in order."""
        self.drain(engine)
        return np.concatenate(self._events)

    def recording(self, engine: Engine, requests: Requests, end_s: float) -> Recording:
        """Make the recording; the log book is empty afterwards."""
        self.drain(engine)
        columns = {}
        for name, chunks in self._columns.items():
            columns[name] = np.concatenate(chunks)
            chunks.clear()
        if len(engine.replicas) > 1:  # per replica the rows are in order already
            order = np.argsort(columns["replica"], kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        streaming = columns.pop("streaming_seqs").astype(np.int64)
        some = streaming > 0
        lone_gaps_s = np.concatenate(self._gaps_s)
        gaps = InterTokenGaps(
            gap_s=np.concatenate([columns.pop("gap_s")[some], lone_gaps_s]),
            count=np.concatenate([streaming[some], np.ones(len(lone_gaps_s), np.int64)]),
        )
        return Recording(
            requests=requests,
            outcome=_outcome(engine, end_s),
            steps=Steps(**{field.name: columns[field.name] for field in fields(Steps)}),
            gaps=gaps,
            end_s=end_s,
            usable_kv_blocks=int(engine.limits["usable_blocks"][0]),
            block_size=int(engine.limits["block_size"][0]),
            replicas=len(engine.replicas),
        )


def _outcome(engine: Engine, end_s: float) -> Outcome:
    table = engine.requests
    status = np.full(len(table), recording.UNFINISHED, np.int8)
    status[table["state"] == state.DONE] = recording.FINISHED
    status[table["state"] == state.REJECTED] = recording.REJECTED
    columns = {name: np.ascontiguousarray(table[name]) for name in OUTCOME_COLUMNS}
    columns["reject_reason"] = columns["reject_reason"].astype(np.int8)
    if not engine.limits["stream"][0]:  # nobody has seen anything of a batch that still runs
        columns["first_token_s"][status != recording.FINISHED] = np.nan
    return Outcome(
        status=status,
        generated_tokens=table["known_tokens"] - table["in_flight"] - table["prompt_tokens"],
        **columns,
    )
