"""TraceLab's round traces as published: one JSON object for each round of an agent's session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.workload.traces.cells import Count, Label, Stamp
from simulator.workload.traces.layout import Check, Field, Layout
from simulator.workload.traces.records import Record


def _round(record: Record) -> Iterator[Record]:
    """The round with the times of its first event and of the last one that it produced."""
    events = record.cells.get("timing_events")
    if not isinstance(events, list) or not events or not all(isinstance(e, dict) for e in events):
        yield Record(record.place, {}, "has timing_events that are not a list of events")
        return
    yield Record(
        record.place,
        {**record.cells, "started": _time(events[0]), "ended": _time(events[-1])},
    )


def _time(event: dict[str, Any]) -> Any:
    return event.get("timestamp")


TRACELAB_ROUNDS = Layout(
    name="tracelab_rounds",
    about="TraceLab round traces, dates and times of events",
    kinds=("jsonl", "json"),
    fields=(
        Field("session", ("session_id",), Label()),
        Field("round", ("round_index",), Count(0)),
        Field("arrival", ("started",), Stamp()),
        Field("ended", ("ended",), Stamp()),
        Field("prompt_tokens", ("input_tokens_total",), Count()),
        Field("prefix_tokens", ("prefix_tokens",), Count(0)),
        Field("output_tokens", ("output_tokens",), Count()),
    ),
    checks=(
        Check(
            ("prompt_tokens", "prefix_tokens"),
            lambda prompt, prefix: prefix <= prompt,
            "has a longer prefix than its prompt",
        ),
    ),
    outer=("session_id", "round_index", "timing_events"),
    unroll=_round,
)
