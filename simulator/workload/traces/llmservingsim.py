"""Request files of LLMServingSim: requests on their own, and sessions of sub-requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.workload.traces.cells import Count, Elapsed, Label
from simulator.workload.traces.layout import Field, Layout
from simulator.workload.traces.records import Record


def _sub_requests(record: Record) -> Iterator[Record]:
    """One row for each LLM call of a session; both kinds of lines may share a file."""
    calls = record.cells.get("sub_requests")
    if calls is None:
        yield Record(record.place, {**record.cells, "session_id": None})
    elif not isinstance(calls, list) or not calls:
        yield Record(record.place, {}, "has sub_requests that are not a list of calls")
    else:
        outer = {key: value for key, value in record.cells.items() if key != "sub_requests"}
        for number, call in enumerate(calls, 1):
            place = f"{record.place}, sub-request {number}"
            if isinstance(call, dict):
                yield Record(place, {**call, **outer})
            else:
                yield Record(place, {}, "is not a JSON object")


def _session(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of a session; a request on its own is a flat one."""
    of_call = ("input_toks", "output_toks", "tool_duration_ns")
    outer = {key: value for key, value in calls[0].items() if key not in of_call}
    if len(calls) == 1:
        return {key: value for key, value in calls[0].items() if key in LLMSERVINGSIM.required}
    inner = [{key: value for key, value in call.items() if key in of_call} for call in calls]
    return {**outer, "sub_requests": inner}


LLMSERVINGSIM = Layout(
    name="llmservingsim",
    about="LLMServingSim, arrival_time_ns",
    kinds=("jsonl", "json"),
    fields=(
        Field("session", ("session_id",), Label(), required=False, default=""),
        Field("arrival", ("arrival_time_ns",), Elapsed(per_second=1e9)),
        Field("prompt_tokens", ("input_toks",), Count()),
        Field("output_tokens", ("output_toks",), Count()),
        Field("think_after", ("tool_duration_ns",), Elapsed(1e9, least=0), False, 0.0),
    ),
    outer=("session_id", "arrival_time_ns", "sub_requests"),
    unroll=_sub_requests,
    roll=_session,
)
