"""Sub-agents: requests that a turn of a session starts and that a later turn waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.workload.requests import Floats, Ints
from simulator.workload.traces.layout import Columns

if TYPE_CHECKING:
    from simulator.workload.traces.trace import Trace

# Clocks of agents tell whole seconds as a rule.
TOLERANCE_S = 1.0

AGENT_ROLES = ("fork", "join", "join_s")


class SubAgents(NamedTuple):
    """Who started whom, and who waits for whom.

    Attributes
    ----------
    root : (c,) number of the chain of turns that a chain's session began with, often itself.
    fork : (n,) row that the first turn of a sub-agent comes after; -1 for other rows.
    join : (n,) row that waits for the last turn of a sub-agent too; -1 for other rows.
    join_s : (n,) seconds from the end of that last turn to the row that waits for it.
    """

    root: Ints
    fork: Ints
    join: Ints
    join_s: Floats

    def offsets(self, order: Ints) -> Columns:
        """``fork`` and ``join`` from row to row, 0 for none, and ``join_s``, rows in `order`."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        found: Columns = {"join_s": self.join_s[order]}
        for role, target in (("fork", self.fork), ("join", self.join)):
            away = np.where(target >= 0, place[target] - place, 0)
            found[role] = away[order]
        return found


def sub_agents(
    columns: Columns,
    chains: dict[Any, int],
    first: Ints,
    moments_s: Floats,
    service_s: Floats,
    think_s: Floats,
) -> SubAgents:
    """Place sub-agents in their sessions, as they were recorded.

    A sub-agent starts as long after the end of its caller's turn as recorded.  The first turn
    of the caller that was recorded after the sub-agent's end waits for it; what its think time
    was without the sub-agent's work is not told, so that only the time since then is kept.

    Parameters
    ----------
    columns : rows of a chain behind one another, with ``round`` and ``forked_after``, the round
        of the caller's turn that a sub-agent started after; -1: not told.
    chains : number of each chain by (session, agent); the caller of agent ``a/b`` is ``a``.
    first : (c,) first row of each chain.
    moments_s, service_s, think_s : (n,); the last is changed where turns wait for sub-agents.
    """
    rounds, forked = columns["round"], columns.pop("forked_after")
    n, ends = len(rounds), np.append(first[1:], len(rounds))
    root, parent = np.arange(len(first)), np.full(len(first), -1)
    fork, join, join_s = np.full(n, -1), np.full(n, -1), np.zeros(n)
    ended_s = moments_s + np.nan_to_num(service_s)
    for name, chain in chains.items():
        start, last = first[chain], ends[chain] - 1
        caller = chains.get((name[0], name[1].rpartition("/")[0])) if is_sub(name) else None
        if caller is None or forked[start] < 0:
            continue
        turns = np.arange(first[caller], ends[caller])
        before = turns[rounds[turns] <= forked[start]]
        if not len(before):
            continue
        parent[chain], fork[start] = caller, before[-1]
        think_s[start] = max(np.nan_to_num(moments_s[start] - ended_s[before[-1]]), 0.0)
        later = turns[rounds[turns] > forked[start]]
        later = later[moments_s[later] >= ended_s[last] - TOLERANCE_S]
        if len(later):
            join[last] = later[0]
            join_s[last] = max(moments_s[later[0]] - ended_s[last], 0.0)
            think_s[later[0]] = min(think_s[later[0]], join_s[last])
    for _ in range(len(first)):
        has = parent[root] >= 0
        if not has.any():
            break
        root[has] = parent[root[has]]
    return SubAgents(root, fork, join, join_s)


def is_sub(name: Any) -> bool:
    """Whether a (session, agent) is a sub-agent; rows on their own have a number for a name."""
    return isinstance(name, tuple) and bool(name[1])


def earliest_s(trace: Trace) -> Floats:
    """(n,) when each row of a trace of sessions would come if answers took no time."""
    turn, think_s = trace.extra["turn"], trace.extra["think_s"]
    follows = [[(row - 1, think_s[row])] if turn[row] else [] for row in range(len(trace))]
    for row in np.flatnonzero(trace.extra.get("fork", turn * 0)).tolist():
        follows[row].append((row + int(trace.extra["fork"][row]), think_s[row]))
    for row in np.flatnonzero(trace.extra.get("join", turn * 0)).tolist():
        follows[row + int(trace.extra["join"][row])].append((row, trace.extra["join_s"][row]))
    times = trace.arrival_s.copy()
    changed = True
    while changed:  # as often as sub-agents are nested
        changed = False
        for row, before in enumerate(follows):
            time = max((times[other] + delay_s for other, delay_s in before), default=times[row])
            changed, times[row] = changed or time != times[row], time
    return times


def as_sessions(trace: Trace) -> Trace:
    """Sub-agents as sessions of their own, at the times that they would have among quick answers.

    A turn that waits for one comes after the turn before it as late as it then would.
    """
    times = earliest_s(trace)
    turn = trace.extra["turn"]
    first = np.flatnonzero(turn == 0)
    counts = np.diff(first, append=len(trace))
    order = np.argsort(times[first], kind="stable")
    kept = {role: cells for role, cells in trace.extra.items() if role not in AGENT_ROLES}
    kept["think_s"] = np.where(turn > 0, np.diff(times, prepend=0.0), 0.0)
    apart = replace(trace, arrival_s=np.repeat(times[first], counts), extra=kept)
    return apart.take_sessions(order, times[first][order])
