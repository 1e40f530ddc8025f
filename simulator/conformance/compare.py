"""The first difference between a recorded schedule and ours."""

from __future__ import annotations

from typing import Any

from simulator.conformance.replay import replay
from simulator.conformance.workload import RecordedCase

Record = dict[str, Any]
# What we know of a step or request where the recording may say nothing.
OURS_ALONE = {"t", "t_run", "end_t", "first", "finish_reason"}
EMPTY: tuple[Any, ...] = ([], {}, None)


def first_difference(case: RecordedCase) -> str | None:
    """Replay `case`; None if it is identical, else a sentence on the first difference."""
    steps, requests, end = replay(case)
    for recorded, ours in zip(case.steps, steps, strict=False):
        difference = _differing_field(recorded, ours)
        if difference:
            return f"step {recorded['k']}: {difference}"
    if len(case.steps) != len(steps):
        return f"recorded {len(case.steps)} steps, ours {len(steps)}"
    for name, recorded in case.outcomes.items():
        if name not in requests:
            return f"request {name} is in the answer but not in the workload"
        difference = _differing_field(recorded, requests[name])
        if difference:
            return f"request {name}: {difference}"
    difference = _differing_field(case.end, end)
    return f"end: {difference}" if difference else None


def _differing_field(recorded: Record, ours: Record) -> str | None:
    """Compare what the recording has, and what it leaves out because it is empty.

    Floats must be equal to the bit; the order of the batch counts, so mappings are compared
    as lists of pairs.
    """
    for field in sorted(recorded.keys() | (ours.keys() - OURS_ALONE)):  # the same one every time
        if field in ("type", "id"):
            continue
        if field not in recorded and ours[field] in EMPTY:
            continue
        theirs, mine = recorded.get(field), ours.get(field)
        if isinstance(theirs, dict) and isinstance(mine, dict):
            theirs, mine = list(theirs.items()), list(mine.items())
        if theirs != mine:
            return f"{field} is {theirs!r} in the recording, {mine!r} here"
    return None
