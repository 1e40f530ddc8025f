"""A stretch of a run as a trace for Perfetto or chrome://tracing.

Format: the Trace Event Format's JSON object (Google, "Trace Event Format"): times in
microseconds, X slices nest by time within a (pid, tid), C events are counters, M events name
the tracks.  Replica r is process r + 1: its steps are thread 0, each of its requests is a
thread of its own, on which queue, prefill, decode, preempted and recompute follow each other
with the chunks of prompt below.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine import log
from simulator.errors import InputError
from simulator.recording import REJECT_REASONS, REJECTED, STATUS_NAMES, Recording
from simulator.report.files import plain, write_text
from simulator.simulation import event_log

if TYPE_CHECKING:
    from simulator.simulation import Result

Window = tuple[float, float]
Event = dict[str, Any]
STEPS = 0  # thread of a replica's steps; request i is thread i + 1
NUMBER = r"(\d+(?:\.\d*)?)\s*s?"


def parse_window(text: str) -> Window:
    """Read ``"10..20s"``: from 10 s to 20 s of simulated time.

    Raises
    ------
    InputError : with an example, where it is not two growing numbers.
    """
    found = re.fullmatch(rf"{NUMBER}\s*\.\.\s*{NUMBER}", text.strip())
    if found is None or not float(found[1]) < float(found[2]):
        raise InputError(f"--window: {text!r} is no stretch of time; write it like 10..20s.")
    return float(found[1]), float(found[2])


def write_trace(result: Result, path: Path, window: Window) -> None:
    """Write the trace of `window`, in simulated seconds, as JSON.

    What happened inside the steps is found by running the scenario again, up to the end of
    the window, with an event log.
    """
    events = event_log(result, until=window[1], keep=_telling)
    trace = {
        "traceEvents": list(trace_events(result.recording, events, window)),
        "displayTimeUnit": "ms",
        "otherData": {
            "scenario": result.resolved.scenario.name,
            "scenario_hash": result.summary["scenario_hash"],
            "window_s": list(window),
        },
    }
    write_text(path, json.dumps(plain(trace), ensure_ascii=False, allow_nan=False) + "\n")


def _telling(events: NDArray[Any]) -> NDArray[Any]:
    """Events that the recording does not have: launches, preemptions and chunks of prompts."""
    kind = events["kind"]
    chunk = (kind == log.SCHEDULE) & (events["value"] > 1)
    return np.asarray(events[chunk | np.isin(kind, (log.LAUNCH, log.PREEMPT, log.RESUME))])


def trace_events(recording: Recording, events: NDArray[Any], window: Window) -> Iterator[Event]:
    """The events of a trace.

    Parameters
    ----------
    recording : the whole run.
    events : its event log up to the end of the window, at least the kinds of `_telling`.
    window : (from, to) in simulated seconds; slices end at its edges.
    """
    for name, pool, first in recording.pools():
        ours = events[(events["replica"] >= first) & (events["replica"] < first + pool.replicas)]
        ours["replica"] -= first
        for event in _of_pool(name, pool, ours, window):
            yield {**event, "pid": event["pid"] + first}
    yield from _transfers(recording, window)


def _of_pool(
    name: str, recording: Recording, events: NDArray[Any], window: Window
) -> Iterator[Event]:
    """The events of equal replicas, counted from 0."""
    for replica in range(recording.replicas):
        yield _name("process_name", replica, STEPS, f"{name}replica {replica}")
        yield _name("thread_name", replica, STEPS, "steps")
        yield from _steps(recording, replica, window)
    yield from _requests(recording, events, window)


def _transfers(recording: Recording, window: Window) -> Iterator[Event]:
    """KV on its way to a decode replica, in the row of its request there."""
    moved = recording.handovers
    if moved is None:
        return
    ends_s = np.where(np.isnan(moved.arrived_s), recording.end_s, moved.arrived_s)
    touches = (moved.claimed_s < window[1]) & (ends_s >= window[0])
    for row in np.flatnonzero(touches).tolist():
        about = {"blocks": int(moved.pulled_blocks[row])}
        place = (int(moved.replica[row]), row + 1)
        start_s = float(moved.claimed_s[row])
        yield from _slice("KV transfer", *place, start_s, float(ends_s[row]), window, about)


def _steps(recording: Recording, replica: int, window: Window) -> Iterator[Event]:
    steps = recording.steps
    touches = (steps.replica == replica) & (steps.end_s > window[0]) & (steps.start_s < window[1])
    rows = np.flatnonzero(touches)
    usable = max(recording.usable_kv_blocks, 1)
    for place, row in enumerate(rows):
        prefill, decode = int(steps.prefill_tokens[row]), int(steps.decode_seqs[row])
        held = float(steps.kv_blocks[row]) / usable * 100
        running, waiting = int(steps.running[row]), int(steps.waiting[row])
        start_s, end_s = float(steps.start_s[row]), float(steps.end_s[row])
        parts = [f"prefill {prefill}"] if prefill else []
        parts += [f"decode {decode}"] if decode else []
        about = {
            "scheduled_tokens": int(steps.scheduled_tokens[row]),
            "prefill_tokens": prefill,
            "prefill_seqs": int(steps.prefill_seqs[row]),
            "decode_seqs": decode,
            "running": running,
            "waiting": waiting,
            "kv_usage_percent": held,
            "gpu_ms": float(steps.gpu_s[row]) * 1e3,
            "host_ms": float(steps.host_s[row]) * 1e3,
            "preempted": int(steps.preempted[row]),
        }
        yield from _slice(
            " + ".join(parts) or "empty", replica, STEPS, start_s, end_s, window, about
        )
        shown_s = max(start_s, window[0])
        yield _counter("requests", replica, shown_s, running=running, waiting=waiting)
        yield _counter("tokens per step", replica, shown_s, prefill=prefill, decode=decode)
        yield _counter("KV cache held (%)", replica, shown_s, held=held)
        following = rows[place + 1] if place + 1 < len(rows) else None
        if following is not None and steps.start_s[following] > end_s:  # idle in between
            yield _counter("requests", replica, end_s, running=0, waiting=waiting)
            yield _counter("tokens per step", replica, end_s, prefill=0, decode=0)


def _requests(recording: Recording, events: NDArray[Any], window: Window) -> Iterator[Event]:
    outcome, names = recording.outcome, recording.requests.ids
    ends_s = np.where(np.isnan(outcome.finished_s), recording.end_s, outcome.finished_s)
    ends_s = np.where(outcome.status == REJECTED, outcome.arrival_s, ends_s)
    touches = (outcome.arrival_s < window[1]) & (ends_s >= window[0]) & (outcome.replica >= 0)
    turns, chunks = _inside(recording, events)
    for row in np.flatnonzero(touches).tolist():
        replica = int(outcome.replica[row])
        name = names[row] if names is not None else str(row)
        yield _name("thread_name", replica, row + 1, f"request {name}")
        yield {
            "name": "thread_sort_index", "ph": "M", "pid": replica + 1, "tid": row + 1, "ts": 0,
            "args": {"sort_index": row + 1},
        }  # fmt: skip
        arrival_s, end_s = float(outcome.arrival_s[row]), float(ends_s[row])
        if outcome.status[row] == REJECTED:
            reason = REJECT_REASONS[outcome.reject_reason[row]].replace("_", " ")
            yield {
                "name": f"rejected: {reason}", "ph": "i", "s": "t", "pid": replica + 1,
                "tid": row + 1, "ts": _us(arrival_s),
            }  # fmt: skip
            continue
        whole = (f"request {name}", replica, row + 1, arrival_s, end_s, window)
        yield from _slice(*whole, _about(recording, row))
        for phase, start_s, until_s in _phases(recording, row, turns[row], chunks[row], end_s):
            yield from _slice(phase, replica, row + 1, start_s, until_s, window)
            if phase in ("prefill", "recompute"):
                for tokens, from_s, to_s in chunks[row]:
                    if start_s <= from_s < until_s:
                        cut = (from_s, min(to_s, until_s), window)
                        yield from _slice(f"{tokens} tokens", replica, row + 1, *cut)


def _about(recording: Recording, row: int) -> Event:
    requests, outcome = recording.requests, recording.outcome
    return {
        "class": requests.class_names[requests.class_id[row]],
        "status": STATUS_NAMES[outcome.status[row]],
        "prompt_tokens": int(requests.prompt_tokens[row]),
        "generated_tokens": int(outcome.generated_tokens[row]),
        "cached_tokens": int(outcome.cached_tokens[row]),
        "preemptions": int(outcome.preemptions[row]),
        "arrival_s": float(outcome.arrival_s[row]),
        "first_token_s": float(outcome.first_token_s[row]),
        "finished_s": float(outcome.finished_s[row]),
    }


Turns = dict[int, list[tuple[int, float]]]  # request -> (PREEMPT or RESUME, when)
Chunks = dict[int, list[tuple[int, float, float]]]  # request -> (tokens, start, end of its step)


def _inside(recording: Recording, events: NDArray[Any]) -> tuple[Turns, Chunks]:
    """What the log says of each request: a launch ends the list of what its step schedules."""
    steps = recording.steps
    ours = [np.flatnonzero(steps.replica == replica) for replica in range(recording.replicas)]
    launched = [0] * recording.replicas
    turns: Turns = defaultdict(list)
    chunks: Chunks = defaultdict(list)
    for kind, replica, request, value, time_s in events.tolist():
        if kind == log.LAUNCH:
            launched[replica] += 1
        elif kind in (log.PREEMPT, log.RESUME):
            turns[request].append((kind, time_s))
        elif kind == log.SCHEDULE and value > 1 and launched[replica] < len(ours[replica]):
            row = ours[replica][launched[replica]]
            chunks[request].append((value, float(steps.start_s[row]), float(steps.end_s[row])))
    return turns, chunks


def _phases(
    recording: Recording,
    row: int,
    turns: list[tuple[int, float]],
    chunks: list[tuple[int, float, float]],
    end_s: float,
) -> Iterator[tuple[str, float, float]]:
    """(phase, start, end) of a request from its arrival to its end, without gaps.

    A recomputation lasts until the last chunk of several tokens that follows a resumption
    ends; from then on the request decodes.
    """
    outcome = recording.outcome
    admitted_s, first_s = float(outcome.admitted_s[row]), float(outcome.first_token_s[row])
    changes = [("queue", float(outcome.arrival_s[row]))]
    if not math.isnan(admitted_s):
        changes.append(("prefill", admitted_s))
    before = [kind for kind, time_s in turns if time_s < first_s]
    if not math.isnan(first_s) and before[-1:] != [log.PREEMPT]:
        changes.append(("decode", first_s))
    stops = [time_s for kind, time_s in turns if kind == log.PREEMPT] + [math.inf]
    for kind, time_s in turns:
        if kind == log.PREEMPT:
            changes.append(("preempted", time_s))
        elif not time_s > first_s:  # before its first token, or without one
            changes.append(("prefill", time_s))
        else:
            until_s = min(stop for stop in stops if stop >= time_s)
            again = [to_s for _, from_s, to_s in chunks if time_s <= from_s < until_s]
            changes.append(("recompute", time_s))
            changes.append(("decode", min(max(again, default=time_s), until_s)))
    changes.sort(key=lambda change: change[1])
    for (phase, start_s), (_, until_s) in zip(changes, [*changes[1:], ("end", end_s)], strict=True):
        if until_s > start_s:
            yield phase, start_s, until_s


def _us(time_s: float) -> float:
    return round(time_s * 1e6, 3)


def _slice(
    name: str,
    replica: int,
    tid: int,
    start_s: float,
    end_s: float,
    window: Window,
    about: Event | None = None,
) -> Iterator[Event]:
    """A slice, cut at the window's edges; none where nothing is left of it."""
    start, end = _us(max(start_s, window[0])), _us(min(end_s, window[1]))
    if end > start:
        event = {"name": name, "ph": "X", "pid": replica + 1, "tid": tid, "ts": start,
                 "dur": round(end - start, 3)}  # fmt: skip
        yield event if about is None else {**event, "args": about}


def _counter(name: str, replica: int, time_s: float, **values: float) -> Event:
    return {
        "name": name, "ph": "C", "pid": replica + 1, "tid": STEPS, "ts": _us(time_s),
        "args": values,
    }  # fmt: skip


def _name(kind: str, replica: int, tid: int, name: str) -> Event:
    return {
        "name": kind, "ph": "M", "pid": replica + 1, "tid": tid, "ts": 0, "args": {"name": name}
    }  # fmt: skip
