"""From a scenario's workload section to the table of requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from simulator.errors import InputError
from simulator.workload.adapters import adapters_of, apart_by_adapter
from simulator.workload.content import (
    WHOLE_HISTORY,
    Content,
    of_blocks,
    of_sessions,
    of_system_prompts,
)
from simulator.workload.drawn import drawn
from simulator.workload.recorded import recorded
from simulator.workload.requests import Floats, Ints, Requests, Seating
from simulator.workload.rows import Rows
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.classes import ClassSpec
    from simulator.scenario.workload import LognormalError, WorkloadSpec

NO_SEGMENTS = np.zeros((0, 2), np.int64)
NO_OFFSETS = np.zeros(0, np.int64)


def build_requests(
    spec: WorkloadSpec, *, base_dir: Path, max_model_len: int, seed: int, replicate: int = 0
) -> Requests:
    """Read or draw the requests of a workload.

    Parameters
    ----------
    spec : the validated section of the scenario.
    base_dir : folder that files named in it are relative to.
    max_model_len : longest prompt + output of the engine, tokens.  Longer requests are
        left as they are (the engine rejects or ends them); it is what clients that name
        no `max_tokens` declare, less their prompt.
    seed, replicate : same seed and replicate, same requests.  Replicates of a
        statistical workload are independent; those of a trace after the first are
        drawn from it in blocks (see `bootstrap`).

    Returns
    -------
    Requests
        With `notes` on everything that was found, left out, sorted or cut.

    Raises
    ------
    InputError
        names the key, or the file, line and column, and what to do.
    """
    streams = Streams(seed, replicate)
    if spec.trace is not None:
        rows = recorded(spec, base_dir, streams)
    else:
        rows = drawn(spec, base_dir, streams, max_model_len)
    if not len(rows):
        raise InputError(
            "the workload has no requests: none arrives within its window or duration_s; "
            "lengthen it"
        )
    _scale(spec, rows)
    _cap(spec, rows, max_model_len)
    declared = _declared(spec, rows, max_model_len)
    content = _content(spec, rows)
    adapter = adapters_of(spec, rows, streams)
    if content is not None and len(adapter):
        content = apart_by_adapter(content, adapter)
    if content is not None:
        rows.notes.append(content.note)
    seats, seating = _seats(spec)
    if seats is not None:
        seats = min(seats, len(rows))  # more seats than requests are never taken
    next_request, think_s = _followers(rows)
    links, link_s = _links(rows)
    return Requests(
        arrival_s=rows.arrival_s,
        prompt_tokens=rows.prompt_tokens,
        output_tokens=rows.output_tokens,
        max_tokens=declared,
        predicted_tokens=_predicted(spec.predictor, rows, streams),
        priority=_priority(spec.classes, rows),
        class_id=rows.class_id,
        class_names=rows.class_names,
        ids=_ids(rows),
        max_concurrency=seats,
        seating=seating,
        next_request=next_request,
        think_s=think_s,
        links=links,
        link_s=link_s,
        adapter=adapter,
        segments=NO_SEGMENTS if content is None else content.segments,
        segment_offsets=NO_OFFSETS if content is None else content.offsets,
        notes=tuple(rows.notes),
    )


def _scale(spec: WorkloadSpec, rows: Rows) -> None:
    """Make prompts or outputs longer or shorter, each to at least one token."""
    for what, factor in (
        ("prompt", spec.prompt_tokens_scale),
        ("output", spec.output_tokens_scale),
    ):
        if factor == 1.0:
            continue
        bound = "turn" in rows.extra or (what == "prompt" and "blocks" in rows.extra)
        if bound:
            raise InputError(
                f"workload.{what}_tokens_scale is {factor:g}, but the lengths of sessions and of "
                "prompts made of blocks hang together; remove it"
            )
        tokens: Ints = getattr(rows, f"{what}_tokens")
        scaled = np.maximum(np.rint(tokens * factor), 1).astype(np.int64)
        setattr(rows, f"{what}_tokens", scaled)
        rows.notes.append(f"lengths: {what}s are scaled by {factor:g}")


def _cap(spec: WorkloadSpec, rows: Rows, max_model_len: int) -> None:
    """Cut what is longer than asked for, and say so."""
    _cut(rows, "output", spec.max_output_tokens, "workload.max_output_tokens")
    _cut(rows, "prompt", spec.max_prompt_tokens, "workload.max_prompt_tokens")
    if spec.on_too_long == "truncate":
        why = f"what fits in max_model_len ({max_model_len:,})"
        _cut(rows, "output", max_model_len - 1, why)
        _cut(rows, "prompt", max_model_len - rows.output_tokens, why)


def _cut(rows: Rows, what: Literal["prompt", "output"], limit: int | Ints | None, why: str) -> None:
    if limit is None:
        return
    tokens: Ints = getattr(rows, f"{what}_tokens")
    cut = int(np.count_nonzero(tokens > limit))
    if cut:
        setattr(rows, f"{what}_tokens", np.minimum(tokens, limit))
        rows.notes.append(f"lengths: {cut:,} of {len(rows):,} {what}s are cut to {why}")


def _seats(spec: WorkloadSpec) -> tuple[int | None, Seating]:
    """Seats of clients that wait for one another, and how they take them."""
    arrivals = spec.arrivals
    if arrivals is None or arrivals.process != "closed_loop":
        return spec.max_concurrency, Seating()
    # A client of a closed loop sees a session through before it starts the next.
    return arrivals.concurrency, Seating(arrivals.think_time_s, arrivals.ramp_s, whole_session=True)


def _followers(rows: Rows) -> tuple[Ints, Floats]:
    """`Requests.next_request` and `Requests.think_s`."""
    n = len(rows)
    if "turn" not in rows.extra:
        return np.full(n, -1), np.zeros(n)
    follows = np.append(rows.extra["turn"][1:] > 0, False)
    think_s = np.append(rows.extra["think_s"][1:], 0.0)
    return np.where(follows, np.arange(1, n + 1), -1), np.where(follows, think_s, 0.0)


def _links(rows: Rows) -> tuple[Ints, Floats]:
    """`Requests.links` and `Requests.link_s`: how sub-agents start and are waited for."""
    if "fork" not in rows.extra:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    fork, join = rows.extra["fork"], rows.extra["join"]
    started, last = np.flatnonzero(fork), np.flatnonzero(join)
    links = np.concatenate(
        (
            np.stack([started + fork[started], started], axis=1),
            np.stack([last, last + join[last]], axis=1),
        )
    )
    return links, np.concatenate((rows.extra["think_s"][started], rows.extra["join_s"][last]))


def _content(spec: WorkloadSpec, rows: Rows) -> Content | None:
    """What prompts share: by block ids, or as system prompts; None for nothing."""
    own = [c.shared_prefix_tokens for c in spec.classes]
    stated = spec.shared_prefix_tokens is not None or any(tokens is not None for tokens in own)
    if "blocks" in rows.extra:
        if stated:
            raise InputError(
                "shared_prefix_tokens is given, but the trace's block ids tell what prompts "
                "share; remove it"
            )
        assert rows.block_tokens is not None
        return of_blocks(rows.extra["blocks"], rows.prompt_tokens, rows.block_tokens)
    grouped = "group" in rows.extra and "group_tokens" in rows.extra
    if grouped and stated:
        raise InputError(
            "shared_prefix_tokens is given, but the trace's prefix groups tell what prompts share; "
            "remove it"
        )
    if not stated and not grouped and "turn" not in rows.extra:
        return None
    # Tag 0 is the workload's system prompt, which classes without one of their own have.
    shared = spec.shared_prefix_tokens or 0
    tokens = np.array([shared if t is None else t for t in own] or [shared], np.int64)
    tags = np.array([0 if t is None else i + 1 for i, t in enumerate(own)] or [0], np.int64)
    tokens, tags = tokens[rows.class_id], tags[rows.class_id]
    if grouped:
        _, tags = np.unique(rows.extra["group"].astype(str), return_inverse=True)
        tokens = rows.extra["group_tokens"]
    if "turn" not in rows.extra:
        return of_system_prompts(tokens, tags, rows.prompt_tokens)
    history = rows.extra.get("prefix_tokens", np.full(len(rows), WHOLE_HISTORY))
    return of_sessions(
        tokens, tags, rows.prompt_tokens, rows.output_tokens, rows.extra["turn"], history
    )


def _declared(spec: WorkloadSpec, rows: Rows, max_model_len: int) -> Ints:
    """max_tokens of each request; outputs end there, where a client declared one."""
    n = len(rows.arrival_s)
    stated = rows.extra.get("max_tokens", np.zeros(n, np.int64))  # 0: the row states none
    if spec.max_tokens is not None:
        if stated.any():
            rows.notes.append("max_tokens: workload.max_tokens takes the place of the trace's")
        stated = np.full(n, spec.max_tokens)
    cut = (stated > 0) & (rows.output_tokens > stated)
    if cut.any():
        rows.output_tokens = np.where(cut, stated, rows.output_tokens)
        rows.notes.append(
            f"max_tokens: {cut.sum():,} of {n:,} outputs were longer than their request's "
            "max_tokens and end there"
        )
    return np.where(stated > 0, stated, np.maximum(max_model_len - rows.prompt_tokens, 1))


def _predicted(predictor: str | LognormalError | None, rows: Rows, streams: Streams) -> Floats:
    """A predictor's guess of the output lengths; NaN without one."""
    output = rows.output_tokens.astype(np.float64)
    if predictor is None:
        return np.full(len(output), np.nan)
    if predictor == "oracle":
        return output
    if predictor == "class_mean":
        members = np.bincount(rows.class_id)
        return (np.bincount(rows.class_id, output) / np.maximum(members, 1))[rows.class_id]
    assert not isinstance(predictor, str)
    luck = streams.generator(Purpose.PREDICTOR).standard_normal(len(output))
    return output * np.exp(predictor.lognormal_error * luck)


def _priority(classes: tuple[ClassSpec, ...], rows: Rows) -> Ints:
    """The row's own priority where the trace has one, else its class's."""
    if "priority" in rows.extra:
        return rows.extra["priority"].astype(np.int64)
    if not classes:
        return np.zeros(len(rows.arrival_s), np.int64)
    return np.array([c.priority for c in classes], np.int64)[rows.class_id]


def _ids(rows: Rows) -> tuple[str, ...] | None:
    """Names from the trace, when they name each request."""
    if "id" not in rows.extra:
        return None
    ids = tuple(rows.extra["id"].tolist())
    if len(set(ids)) < len(ids) or "" in ids:
        rows.notes.append("ids: the trace's do not name each request; called r0, r1, ... instead")
        return None
    return ids
