"""From a scenario's workload section to the table of requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.workload.arrivals import arrival_times
from simulator.workload.bootstrap import resample
from simulator.workload.content import Content, of_blocks, of_system_prompts
from simulator.workload.lengths import draw_lengths
from simulator.workload.requests import Floats, Ints, Requests
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.classes import ClassSpec
    from simulator.scenario.workload import LognormalError, WorkloadSpec

NO_SEGMENTS = np.zeros((0, 2), np.int64)
NO_OFFSETS = np.zeros(0, np.int64)


@dataclass
class _Rows:
    """What all sources of requests give, in order of arrival."""

    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    class_id: Ints
    class_names: tuple[str, ...]
    notes: list[str]
    extra: dict[str, NDArray[Any]] = field(default_factory=dict)
    block_tokens: int | None = None


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
        rows = _recorded(spec, base_dir, streams)
    elif spec.classes and spec.classes[0].arrivals is not None:
        rows = _drawn_per_class(spec, base_dir, streams)
    else:
        rows = _drawn(spec, base_dir, streams)
    if not len(rows.arrival_s):
        raise InputError(
            "the workload has no requests: none arrives within its window or duration_s; "
            "lengthen it"
        )
    if not np.isfinite(rows.arrival_s[-1]):
        raise InputError("workload.trace.rate_scale is too small for any clock; use at least 1e-9")
    declared = _declared(spec, rows, max_model_len)
    content = _content(spec, rows)
    if content is not None:
        rows.notes.append(content.note)
    seats = spec.max_concurrency
    if spec.arrivals is not None and spec.arrivals.process == "closed_loop":
        seats = spec.arrivals.concurrency
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
        segments=NO_SEGMENTS if content is None else content.segments,
        segment_offsets=NO_OFFSETS if content is None else content.offsets,
        notes=tuple(rows.notes),
    )


def _recorded(spec: WorkloadSpec, base_dir: Path, streams: Streams) -> _Rows:
    # Loads Arrow, which statistical workloads need not wait for.
    from simulator.workload.traces.read import read_trace

    trace_spec = spec.trace
    assert trace_spec is not None
    trace = read_trace(
        base_dir / trace_spec.path,
        trace_spec.format,
        on_bad_row=trace_spec.on_bad_row,
        class_column=trace_spec.class_column,
        block_tokens=trace_spec.block_tokens,
    )
    whole = len(trace)
    trace = trace.window(
        skip_s=trace_spec.skip_s, duration_s=trace_spec.duration_s, limit=trace_spec.limit
    )
    notes = list(trace.notes)
    if len(trace) < whole:
        notes.append(f"trace: {len(trace):,} of {whole:,} requests are in the window")
    if streams.replicate and len(trace):
        trace, note = resample(trace, streams.generator(Purpose.BOOTSTRAP))
        notes.append(f"trace: replicate {streams.replicate}, {note}")
    names = tuple(c.name for c in spec.classes) or ("default",)
    if trace_spec.class_column is not None:
        names, class_id = _class_by_name(trace.extra["class_name"], names if spec.classes else ())
    else:
        class_id = _class_by_share(spec.classes, len(trace), streams)
    with np.errstate(over="ignore"):  # told where the requests are put together
        arrival_s = trace.arrival_s / trace_spec.rate_scale
    return _Rows(
        arrival_s,
        trace.prompt_tokens,
        trace.output_tokens,
        class_id,
        names,
        notes,
        trace.extra,
        trace.block_tokens,
    )


def _drawn(spec: WorkloadSpec, base_dir: Path, streams: Streams) -> _Rows:
    assert spec.arrivals is not None
    arrival_s = arrival_times(
        spec.arrivals,
        streams.generator(Purpose.ARRIVALS),
        num_requests=spec.num_requests,
        duration_s=spec.duration_s,
    )
    n = len(arrival_s)
    class_id = _class_by_share(spec.classes, n, streams)
    luck = [
        streams.generator(purpose).standard_normal(n)
        for purpose in (Purpose.PROMPT_LENGTHS, Purpose.OUTPUT_LENGTHS)
    ]
    prompt, output = np.empty(n, np.int64), np.empty(n, np.int64)
    notes: list[str] = []
    # Classes without lengths of their own share the workload's, read and noted once.
    for lengths_of, members in _by_lengths(spec, class_id):
        drawn = draw_lengths(lengths_of, luck[0][members], luck[1][members], base_dir=base_dir)
        prompt[members], output[members] = drawn.prompt_tokens, drawn.output_tokens
        notes += drawn.notes
    names = tuple(c.name for c in spec.classes) or ("default",)
    return _Rows(arrival_s, prompt, output, class_id, names, notes)


def _by_lengths(spec: WorkloadSpec, class_id: Ints) -> list[tuple[Any, Any]]:
    """Distributions of lengths in use, each with the rows that draw from it."""
    own = [i for i, c in enumerate(spec.classes) if c.lengths is not None]
    groups: list[tuple[Any, Any]] = [(spec.classes[i].lengths, class_id == i) for i in own]
    if not own:
        groups.append((spec.lengths, slice(None)))
    elif len(own) < len(spec.classes):
        groups.append((spec.lengths, ~np.isin(class_id, own)))
    return groups


def _drawn_per_class(spec: WorkloadSpec, base_dir: Path, streams: Streams) -> _Rows:
    """Classes with arrivals of their own, each from its own streams, merged by time."""
    parts: list[tuple[Floats, Ints, Ints]] = []
    notes: list[str] = []
    for i, c in enumerate(spec.classes):
        assert c.arrivals is not None
        arrival_s = arrival_times(
            c.arrivals,
            streams.generator(Purpose.ARRIVALS, i),
            num_requests=spec.num_requests,
            duration_s=spec.duration_s,
        )
        lengths = c.lengths if c.lengths is not None else spec.lengths
        assert lengths is not None
        drawn = draw_lengths(
            lengths,
            streams.generator(Purpose.PROMPT_LENGTHS, i).standard_normal(len(arrival_s)),
            streams.generator(Purpose.OUTPUT_LENGTHS, i).standard_normal(len(arrival_s)),
            base_dir=base_dir,
        )
        notes += [note for note in drawn.notes if note not in notes]
        parts.append((arrival_s, drawn.prompt_tokens, drawn.output_tokens))
    class_id = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    arrival_s, prompt, output = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(arrival_s, kind="stable")[: spec.num_requests]
    return _Rows(
        arrival_s[order],
        prompt[order],
        output[order],
        class_id[order],
        tuple(c.name for c in spec.classes),
        notes,
    )


def _class_by_share(classes: tuple[ClassSpec, ...], n: int, streams: Streams) -> Ints:
    if not classes:
        return np.zeros(n, np.int64)
    ends = np.cumsum([c.share or 0.0 for c in classes])[:-1]
    return np.searchsorted(ends, streams.generator(Purpose.CLASSES).random(n), "right")


def _class_by_name(labels: NDArray[Any], names: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """Class of each row; without declared `names`, the labels become classes."""
    known, class_id = np.unique(labels.astype(str), return_inverse=True)
    if not names:
        return tuple(known.tolist()), class_id.astype(np.int64)
    for label in known.tolist():
        if label not in names:
            raise InputError(
                f"the trace has class {label!r}, which workload.classes does not list "
                f"({', '.join(names)}); add it, or leave workload.classes out"
            )
    place = np.array([names.index(label) for label in known.tolist()], np.int64)
    return names, place[class_id]


def _content(spec: WorkloadSpec, rows: _Rows) -> Content | None:
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
    if not stated:
        return None
    # Tag 0 is the workload's system prompt, which classes without one of their own have.
    shared = spec.shared_prefix_tokens or 0
    tokens = np.array([shared if t is None else t for t in own] or [shared], np.int64)
    tags = np.array([0 if t is None else i + 1 for i, t in enumerate(own)] or [0], np.int64)
    return of_system_prompts(tokens[rows.class_id], tags[rows.class_id], rows.prompt_tokens)


def _declared(spec: WorkloadSpec, rows: _Rows, max_model_len: int) -> Ints:
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


def _predicted(predictor: str | LognormalError | None, rows: _Rows, streams: Streams) -> Floats:
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


def _priority(classes: tuple[ClassSpec, ...], rows: _Rows) -> Ints:
    """The row's own priority where the trace has one, else its class's."""
    if "priority" in rows.extra:
        return rows.extra["priority"].astype(np.int64)
    if not classes:
        return np.zeros(len(rows.arrival_s), np.int64)
    return np.array([c.priority for c in classes], np.int64)[rows.class_id]


def _ids(rows: _Rows) -> tuple[str, ...] | None:
    """Names from the trace, when they name each request."""
    if "id" not in rows.extra:
        return None
    ids = tuple(rows.extra["id"].tolist())
    if len(set(ids)) < len(ids) or "" in ids:
        rows.notes.append("ids: the trace's do not name each request; called r0, r1, ... instead")
        return None
    return ids
