"""Requests of a statistical workload: arrivals, lengths and sessions drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.workload.arrivals import arrival_times
from simulator.workload.conversations import add_history, draw_turns
from simulator.workload.lengths import draw_lengths
from simulator.workload.requests import Floats, Ints
from simulator.workload.rows import Rows, class_by_share, joined
from simulator.workload.session_tables import SessionTable
from simulator.workload.streams import Purpose, Streams, normal_cdf

if TYPE_CHECKING:
    from simulator.scenario.arrivals import ArrivalsSpec
    from simulator.scenario.workload import WorkloadSpec


def drawn(spec: WorkloadSpec, base_dir: Path, streams: Streams, max_model_len: int) -> Rows:
    """Requests of a workload that is drawn at random.

    Parameters
    ----------
    max_model_len : sessions end before a prompt and its output exceed it.
    """
    if spec.arrivals is not None:
        rows = _drawn(spec, spec.arrivals, None, base_dir, streams, max_model_len)
        return _counted(rows.take(slice(spec.num_requests)))
    # Classes with arrivals of their own, each from its own streams, merged by time.
    parts = [
        _drawn(spec, c.arrivals, i, base_dir, streams, max_model_len)
        for i, c in enumerate(spec.classes)
        if c.arrivals is not None
    ]
    rows = joined(parts)
    order = np.argsort(rows.arrival_s, kind="stable")  # keeps sessions together
    return _counted(rows.take(order[: spec.num_requests]))


def _counted(rows: Rows) -> Rows:
    """`rows` with a note on its sessions."""
    if "turn" in rows.extra and len(rows):
        sessions = int(np.count_nonzero(rows.extra["turn"] == 0))
        mean = len(rows) / sessions
        rows.notes.append(f"sessions: {sessions:,}, of {mean:.3g} turns on average")
    return rows


def _drawn(
    spec: WorkloadSpec,
    arrivals: ArrivalsSpec,
    source: int | None,
    base_dir: Path,
    streams: Streams,
    max_model_len: int,
) -> Rows:
    """Requests of one arrival process: that of all classes, or of class number `source`."""
    start_s = arrival_times(
        arrivals,
        streams.generator(Purpose.ARRIVALS, source),
        num_requests=spec.num_requests,
        duration_s=spec.duration_s,
        episode_random=streams.generator(Purpose.EPISODES, source),
        base_dir=base_dir,
    )
    class_id = class_by_share(spec.classes, len(start_s), streams)
    if source is not None:
        class_id = np.full(len(start_s), source)
    if spec.sessions is None:
        return _with_lengths(spec, source, start_s, class_id, base_dir, streams)
    limit = min(spec.sessions.max_context_tokens or max_model_len, max_model_len)
    sessions = len(start_s)
    file, mean_turns = spec.sessions.file, spec.sessions.mean_turns
    table = None if file is None else SessionTable.read(base_dir / file)
    if table is not None:
        mean_turns = table.mean_turns()
    assert mean_turns is not None
    if spec.num_requests is not None:  # rarely more than these are needed
        sessions = min(sessions, int(1.1 * spec.num_requests / mean_turns) + 10)
    while True:
        turns = draw_turns(spec.sessions, sessions, streams, source, table)
        rows = _with_lengths(
            spec, source, start_s[turns.session], class_id[turns.session], base_dir, streams
        )
        if table is not None:
            first = turns.turn == 0
            luck = streams.generator(Purpose.PROMPT_LENGTHS, source).standard_normal(len(first))
            rows.prompt_tokens[first] = table.whole("first_prompt_tokens", normal_cdf(luck[first]))
        rows = add_history(rows, turns, limit, spec.max_tokens)
        if sessions == len(start_s) or len(rows) >= (spec.num_requests or 0):
            return rows
        sessions = min(2 * sessions, len(start_s))


def _with_lengths(
    spec: WorkloadSpec,
    source: int | None,
    arrival_s: Floats,
    class_id: Ints,
    base_dir: Path,
    streams: Streams,
) -> Rows:
    """Requests at these times, with lengths drawn for their classes."""
    n = len(arrival_s)
    luck = [
        streams.generator(purpose, source).standard_normal(n)
        for purpose in (Purpose.PROMPT_LENGTHS, Purpose.OUTPUT_LENGTHS)
    ]
    prompt, output = np.empty(n, np.int64), np.empty(n, np.int64)
    notes: list[str] = []
    # Classes without lengths of their own share the workload's, read and noted once.
    for lengths_of, members in _by_lengths(spec, class_id, source):
        lengths = draw_lengths(lengths_of, luck[0][members], luck[1][members], base_dir=base_dir)
        prompt[members], output[members] = lengths.prompt_tokens, lengths.output_tokens
        notes += lengths.notes
    names = tuple(c.name for c in spec.classes) or ("default",)
    return Rows(arrival_s, prompt, output, class_id, names, notes)


def _by_lengths(spec: WorkloadSpec, class_id: Ints, source: int | None) -> list[tuple[Any, Any]]:
    """Distributions of lengths in use, each with the rows that draw from it."""
    if source is not None:
        own_lengths = spec.classes[source].lengths
        return [(spec.lengths if own_lengths is None else own_lengths, slice(None))]
    own = [i for i, c in enumerate(spec.classes) if c.lengths is not None]
    groups: list[tuple[Any, Any]] = [(spec.classes[i].lengths, class_id == i) for i in own]
    if not own:
        groups.append((spec.lengths, slice(None)))
    elif len(own) < len(spec.classes):
        groups.append((spec.lengths, ~np.isin(class_id, own)))
    return groups
