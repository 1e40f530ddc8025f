"""Sessions: turns that arrive when the turn before has ended and a while has passed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.words import counted
from simulator.workload.content import WHOLE_HISTORY
from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.cells import Elapsed, Stamp
from simulator.workload.traces.layout import Columns, Layout
from simulator.workload.traces.subagents import is_sub, sub_agents

UNKNOWN = -1.0  # a think time that the file does not tell
OF_SESSIONS = ("round", "think_before", "think_after", "service_s", "ended", "prefix_tokens",
               "forked_after")  # fmt: skip
NO_PARENT = "-1"  # a request that begins a session

_SALT, _MASK = 0x9E37_79B9_7F4A_7C15, 0xFFFF_FFFF_FFFF_FFFF


class Sessions(NamedTuple):
    """Columns in order of the sessions' starts, a session's turns behind one another.

    ``arrival`` is the start of the session, in seconds from the first; ``turn`` counts from
    0; ``think_s`` is from the end of the turn before, 0 for a first turn.
    """

    columns: Columns
    late: int
    notes: list[str]


def in_sessions(columns: Columns, layout: Layout, *, as_recorded: bool = False) -> Sessions:
    """Put the turns of each session in order and tell what each waits for.

    With `as_recorded` none waits: all turns arrive at their recorded times.

    Roles that are read: ``session`` ("": a request on its own), ``agent`` (the sub-agent of
    a session, as a path), ``forked_after`` (see `sub_agents`), ``round`` (else the order of the
    file), ``arrival`` (NaN: not told), ``think_before`` or ``think_after`` a turn, ``service_s``
    as recorded, and ``blocks``.
    """
    code, scope, chains = _codes(columns)
    rounds = columns.get("round", np.arange(len(code)))
    order = np.lexsort((np.arange(len(code)), rounds, code))
    columns = {role: values[order] for role, values in columns.items()}
    code, scope = code[order], scope[order]
    first = np.flatnonzero(np.diff(code, prepend=-1))
    counts = np.diff(first, append=len(code))
    turn = np.arange(len(code)) - np.repeat(first, counts)

    if "blocks" in columns and layout.local_ids:
        columns["blocks"] = salted(columns["blocks"], scope)
    per_second = {
        f.role: f.kind.per_second for f in layout.fields if isinstance(f.kind, Elapsed | Stamp)
    }
    moments = columns.get("arrival", np.full(len(code), np.nan))
    start_s, untold = _starts(moments[first], per_second["arrival"])
    if as_recorded:
        return _as_recorded(columns, moments, per_second["arrival"])
    notes: list[str] = []
    service_s = columns.pop("service_s", np.full(len(code), np.nan))
    service_s = service_s / per_second.get("service_s", 1.0)
    if "ended" in columns:
        lasted_s = (columns.pop("ended") - moments) / per_second["ended"]
        service_s = np.where(lasted_s >= 0, lasted_s, service_s)
    think_s = _think(columns, turn, moments, service_s, per_second, notes)
    think_s = np.where(turn == 0, 0.0, think_s)
    agents = None
    if "forked_after" in columns:
        moments_s = moments / per_second["arrival"]
        agents = sub_agents(columns, chains, first, moments_s, service_s, think_s)
        start_s = start_s[agents.root]
    root = np.arange(len(first)) if agents is None else agents.root
    sessions = int(np.count_nonzero(root == np.arange(len(first))))
    if turn.any():
        notes.insert(0, f"{counted(len(code), 'request')} in {counted(sessions, 'session')}")
    if sessions < len(first):
        notes.append(
            f"sub-agents: {len(first) - sessions:,} start after the turn that called them, and the "
            "first later turn that they had ended before waits for them"
        )
    lost = sum(is_sub(name) for name in chains) - (len(first) - sessions)
    if lost:
        notes.append(
            f"sub-agents whose place is not told: {lost:,}; they are sessions of their own"
        )
    if untold:
        notes.append(
            f"sessions that do not tell when they start: {untold:,}; they start at once, unless "
            "workload.arrivals says otherwise"
        )
    own = start_s[root == np.arange(len(first))]
    late = int(np.count_nonzero(own < np.maximum.accumulate(own)))
    by_start = np.lexsort((np.arange(len(first)), root, start_s[root]))
    rank = np.empty(len(first), np.int64)
    rank[by_start] = np.arange(len(first))
    order = np.argsort(np.repeat(rank, counts), kind="stable")
    columns["arrival"] = np.repeat(start_s, counts)
    if turn.any() or sessions < len(first):
        columns |= {"turn": turn, "think_s": think_s} | _history(columns, turn)
    columns = {role: values[order] for role, values in columns.items()}
    if agents is not None and sessions < len(first):
        columns |= agents.offsets(order)
    return Sessions(columns, late, notes)


def _as_recorded(columns: Columns, moments: Floats, per_second: float) -> Sessions:
    """All rows at their own times; what a prompt has of the turn before is not kept."""
    if np.isnan(moments).any():
        raise InputError(
            "workload.trace.turns is as_recorded, but the trace does not tell when each turn "
            "arrived; use turns: wait"
        )
    arrival_s, _ = _starts(moments, per_second)
    order = np.argsort(arrival_s, kind="stable")
    kept = {r: v[order] for r, v in columns.items() if r not in (*OF_SESSIONS, "arrival")}
    kept["arrival"] = arrival_s[order]
    return Sessions(kept, 0, ["turns of sessions arrive as recorded, and wait for none"])


def _codes(columns: Columns) -> tuple[Ints, Ints, dict[Any, int]]:
    """Number of each row's agent of a session, by first appearance; of its space of block
    ids; and the numbers by (session, agent)."""
    session = columns.pop("session").tolist()
    agent = columns.pop("agent", np.full(len(session), "")).tolist()
    codes: dict[Any, int] = {}
    scopes: dict[Any, int] = {}
    code, scope = np.empty(len(session), np.int64), np.empty(len(session), np.int64)
    for i, (name, sub) in enumerate(zip(session, agent, strict=True)):
        code[i] = codes.setdefault((name, sub) if name else i, len(codes))
        scope[i] = scopes.setdefault(name or i, len(scopes))
    return code, scope, codes


def _history(columns: Columns, turn: Ints) -> Columns:
    """Prompts that are shorter than what was said have lost its head, so they repeat nothing."""
    prompt, output = columns["prompt_tokens"], columns["output_tokens"]
    repeated = columns.get("prefix_tokens", np.full(len(turn), WHOLE_HISTORY))
    said = np.append(0, (prompt + output)[:-1])
    lost = (turn > 0) & (repeated == WHOLE_HISTORY) & (prompt < said)
    if not lost.any() or "blocks" in columns:
        return {}
    return {"prefix_tokens": np.where(lost, 0, repeated)}


def _starts(moments: Floats, per_second: float) -> tuple[Floats, int]:
    """Starts of the sessions from the first one; how many are not told."""
    untold = np.isnan(moments)
    if untold.all():
        return np.zeros(len(moments)), len(moments)
    return np.where(untold, 0.0, (moments - np.nanmin(moments)) / per_second), int(untold.sum())


def _think(
    columns: Columns,
    turn: Ints,
    moments: Floats,
    service_s: Floats,
    per_second: dict[str, float],
    notes: list[str],
) -> Floats:
    """Seconds between a turn and the one before it, wrong for first turns."""
    n = len(moments)
    if "think_after" in columns:
        return np.roll(columns.pop("think_after"), 1) / per_second["think_after"]
    think_s = columns.pop("think_before", np.full(n, UNKNOWN))
    think_s = think_s / per_second.get("think_before", 1.0)
    gap_s = np.diff(moments, prepend=np.nan) / per_second["arrival"] - np.nan_to_num(
        np.roll(service_s, 1)
    )
    by_gap = (think_s < 0) & ~np.isnan(gap_s)
    if (by_gap & (turn > 0)).any():
        notes.append(
            "turns without a think time wait the recorded gap less the recorded service time, "
            "where that is told"
        )
    return np.where(by_gap, np.maximum(gap_s, 0.0), np.maximum(think_s, 0.0))


def salted(blocks: NDArray[Any], scope: Ints) -> NDArray[Any]:
    """Block ids that differ between scopes, (n,) numbers from 0 for each row."""
    salted = [
        (np.frombuffer(ids, np.uint64) ^ np.uint64((space + 1) * _SALT & _MASK)).tobytes()
        for ids, space in zip(blocks.tolist(), scope.tolist(), strict=True)
    ]
    return np.array(salted, object)


def by_parent(ids: list[str], parents: list[str]) -> list[str]:
    """The session of each row, called after its first one, where rows name the turn before.

    A second row behind the same turn begins a session of its own, as does one whose parent is
    not in the file before it.
    """
    session: dict[str, str] = {}
    followed: set[str] = set()
    found = []
    for name, parent in zip(ids, parents, strict=True):
        goes_on = parent != NO_PARENT and parent in session and parent not in followed
        session[name] = session[parent] if goes_on else name
        followed.add(parent)
        found.append(session[name])
    return found
