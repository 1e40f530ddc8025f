"""Requests of a recorded trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.workload.bootstrap import resample
from simulator.workload.lengths import Lengths, draw_lengths
from simulator.workload.requests import Ints
from simulator.workload.rows import Rows, class_by_share
from simulator.workload.streams import Purpose, Streams

if TYPE_CHECKING:
    from simulator.scenario.lengths import LengthsSpec
    from simulator.scenario.workload import TraceSpec, WorkloadSpec
    from simulator.workload.traces.trace import Trace


def is_recording(spec: WorkloadSpec, base_dir: Path) -> bool:
    """Whether the requests are those of a recording, of which replicates are bootstraps."""
    if spec.trace is None:
        return False
    from simulator.workload.traces import servegen  # loads Arrow, as below

    return not (base_dir / spec.trace.path).is_dir() and spec.trace.format != servegen.NAME


def recorded(spec: WorkloadSpec, base_dir: Path, streams: Streams) -> Rows:
    """Requests of the trace that `spec` names, in its window, at its rate."""
    # Loads Arrow, which statistical workloads need not wait for.
    from simulator.workload.shaping import shaped
    from simulator.workload.traces.kept import read_kept

    trace_spec = spec.trace
    assert trace_spec is not None
    path = base_dir / trace_spec.path
    if not is_recording(spec, base_dir):
        trace = _drawn_from_clients(path, trace_spec, streams)
        notes = list(trace.notes)
    else:
        trace = read_kept(
            path,
            trace_spec.format,
            on_bad_row=trace_spec.on_bad_row,
            class_column=trace_spec.class_column,
            turns=trace_spec.turns,
            block_tokens=trace_spec.block_tokens,
            columns=trace_spec.columns,
            time_unit=trace_spec.time_unit,
        )
        trace, notes = _window(trace, trace_spec, streams)
    if len(trace):
        trace, told = shaped(trace, spec, streams, base_dir)
        notes += told
    names = tuple(c.name for c in spec.classes) or ("default",)
    if trace_spec.class_column is not None:
        names, class_id = _class_by_name(trace.extra["class_name"], names if spec.classes else ())
    else:
        starts = trace.starts
        class_id = np.repeat(
            class_by_share(spec.classes, len(starts), streams), np.diff(starts, append=len(trace))
        )
    with np.errstate(over="ignore"):  # told where the requests are put together
        arrival_s = trace.arrival_s / trace_spec.rate_scale
    prompt, output = trace.prompt_tokens, trace.output_tokens
    if spec.lengths is not None:
        lengths = _other_lengths(trace, spec.lengths, base_dir, streams)
        prompt, output = lengths.prompt_tokens, lengths.output_tokens
        notes += [*lengths.notes, "trace: its arrivals, with workload.lengths"]
    return Rows(
        arrival_s,
        prompt,
        output,
        class_id,
        names,
        notes,
        trace.extra,
        trace.block_tokens,
    )


def _drawn_from_clients(path: Path, spec: TraceSpec, streams: Streams) -> Trace:
    """Requests of ServeGen's clients, other ones in each replicate."""
    from simulator.workload.traces.servegen import draw_servegen

    for key in ("class_column", "columns", "block_tokens"):
        if getattr(spec, key) is not None:
            raise InputError(
                f"workload.trace.{key} is given, but {path} is a folder of ServeGen's, which has "
                "no columns; remove it"
            )
    return draw_servegen(
        path, streams, skip_s=spec.skip_s, duration_s=spec.duration_s, limit=spec.limit
    )


def _window(trace: Trace, spec: TraceSpec, streams: Streams) -> tuple[Trace, list[str]]:
    """The part of a recording that was asked for, as recorded or drawn from it."""
    whole = len(trace)
    trace = trace.window(skip_s=spec.skip_s, duration_s=spec.duration_s, limit=spec.limit)
    notes = list(trace.notes)
    if len(trace) < whole:
        notes.append(f"trace: {len(trace):,} of {whole:,} requests are in the window")
    if streams.replicate and len(trace):
        trace, note = resample(trace, streams.generator(Purpose.BOOTSTRAP))
        notes.append(f"trace: replicate {streams.replicate}, {note}")
    return trace, notes


def _other_lengths(trace: Trace, spec: LengthsSpec, base_dir: Path, streams: Streams) -> Lengths:
    """Lengths that take the place of the trace's."""
    for role, what in (("turn", "sessions"), ("blocks", "block ids")):
        if role in trace.extra:
            raise InputError(
                f"{trace.path} has {what}, which other lengths would contradict; remove "
                "workload.lengths"
            )
    luck = [
        streams.generator(purpose).standard_normal(len(trace))
        for purpose in (Purpose.PROMPT_LENGTHS, Purpose.OUTPUT_LENGTHS)
    ]
    return draw_lengths(spec, luck[0], luck[1], base_dir=base_dir)


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
