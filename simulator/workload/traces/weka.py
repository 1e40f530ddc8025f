"""Sessions of coding agents in Weka's format, nested or with one row for each request.

A session tells its requests by seconds from its own start, its prompts by ids of 64-token
blocks that mean something within the session only.  In the nested form a sub-agent stands
behind the turn that called it; rows of their own do not tell where it started.  guidellm reads
rows with t, in, out, id and hash_ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.workload.traces.blocks import BLOCKS
from simulator.workload.traces.cells import BlockRuns, Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.records import Record
from simulator.workload.traces.sessions import UNKNOWN


def _turns(record: Record) -> Iterator[Record]:
    """One row for each request of a nested session; rows of a flat file as they are."""
    requests = record.cells.get("requests")
    if requests is None:
        yield record
        return
    if record.cells.get("block_size") not in (64, None):
        yield Record(record.place, {}, "has a block_size other than 64")
        return
    yield from _nested(record, requests, agent="", start_s=0.0)


def _nested(
    record: Record, requests: Any, agent: str, start_s: float, forked_after: int = -1
) -> Iterator[Record]:
    if not isinstance(requests, list) or not requests:
        yield Record(record.place, {}, "has requests that are not a list of requests")
        return
    caller = -1
    for number, turn in enumerate(requests):
        place = f"{record.place}, request {number + 1}" + (f" of {agent}" if agent else "")
        if not isinstance(turn, dict):
            yield Record(place, {}, "is not a JSON object")
        elif turn.get("type") == "subagent":
            name = f"{agent}/{turn.get('agent_id', number)}"
            began = turn.get("t")
            began_s = float(began) if isinstance(began, int | float) else 0.0
            if agent and began_s < start_s:
                began_s += start_s
            yield from _nested(record, turn.get("requests"), name, began_s, caller)
        else:
            caller = number
            cells = _cells(record.cells, turn, agent, number, start_s)
            yield Record(place, {**cells, "forked_after": forked_after})


def _cells(
    session: Mapping[str, Any], turn: Mapping[str, Any], agent: str, number: int, start_s: float
) -> dict[str, Any]:
    t = turn.get("t")
    if agent and isinstance(t, int | float) and t < start_s:
        t = t + start_s  # told from the start of the sub-agent
    names = {"session": session.get("id"), "agent": agent, "i": number, "t": t}
    known = {"in": "in", "out": "out", "think": "think_time", "api": "api_time"}
    cells = {name: turn.get(key) for name, key in known.items()}
    return {**names, **cells, "hash_ids": turn.get("hash_ids") or None}


def _session(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """A session in the nested form; sub-agents stand behind the turn that they came after."""
    kept = {"t": "t", "in": "in", "out": "out", "hash_ids": "hash_ids", "think": "think_time"}
    agents: dict[str, list[dict[str, Any]]] = {"": []}
    for turn in turns:
        path = turn.get("agent", "")
        if path not in agents:
            agents[path] = []
            caller, _, name = path.rpartition("/")
            later = (
                n for n, r in enumerate(agents[caller]) if r.get("i", -1) > turn["forked_after"]
            )
            entry = {"t": turn["t"], "type": "subagent", "agent_id": name, "requests": agents[path]}
            agents[caller].insert(next(later, len(agents[caller])), entry)
        request = {new: turn[old] for old, new in kept.items() if old in turn}
        agents[path].append({"type": "n", "model": "", **request, "i": turn.get("i", 0)})
    for requests in agents.values():
        for request in requests:
            request.pop("i", None)
    return {
        "id": turns[0]["session"],
        "models": [],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 0,
        "system_tokens": 0,
        "requests": agents[""],
    }


WEKA = Layout(
    name="weka",
    about="Weka agent sessions, t in s from the session's start",
    kinds=("jsonl", "json"),
    fields=(
        Field("session", ("session", "id"), Label()),
        Field("agent", ("agent",), Label(), required=False, default=""),
        Field("forked_after", ("forked_after",), Count(-1), False, -1, tells=False),
        Field("round", ("i",), Count(0), required=False, default=0),
        Field("arrival", ("t",), Elapsed()),
        Field("prompt_tokens", ("in",), Count()),
        Field("output_tokens", ("out",), Count()),
        Field("think_before", ("think",), Elapsed(least=0), False, UNKNOWN),
        Field("service_s", ("api",), Elapsed(least=0), False, float("nan")),
        BLOCKS,
        Field("block_runs", ("hash_rle",), BlockRuns(), required=False, default=b""),
    ),
    block_tokens=64,
    part_block=None,
    local_ids=True,
    outer=("models", "block_size", "requests"),
    unroll=_turns,
    roll=_session,
)
