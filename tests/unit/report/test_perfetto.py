"""Chrome traces: valid by the Trace Event Format, and true to timelines worked out by hand."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from engine_cases import run, table

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.report.perfetto import parse_window, trace_events

# Two requests of 4 tokens, for 6 and 5, in 6 blocks of 2 tokens: tests/timelines works out
# that the second is preempted at 6 s, resumed at 9.75 s and computed again until 12.5 s.
TIGHT = {"block_size": 2, "usable_blocks": 6, "max_num_seqs": 2, "max_model_len": 12}
SECOND = 1_000_000


def trace(window, *rows, **limits):
    done = run(table(*rows), events=True, **limits)
    return list(trace_events(done.recording, done.events, window))


def slices(events, tid):
    found = [e for e in events if e["ph"] == "X" and e["tid"] == tid]
    return [(e["name"], e["ts"] / SECOND, (e["ts"] + e["dur"]) / SECOND) for e in found]


def check_format(events):
    """What the format asks of each kind of event, that slices of a track nest, that tracks have
    one name each, and that counters go forward in time."""
    tracks, names, counters = defaultdict(list), defaultdict(list), defaultdict(list)
    for event in events:
        assert {"name", "ph", "pid", "tid", "ts"} <= set(event)
        assert event["ph"] in "XCMi"
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] > 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
            counters[event["pid"], event["name"]].append(event["ts"])
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            names[event["name"], event["pid"], event["tid"]].append(event["args"])
        if event["ph"] == "i":
            assert event["s"] == "t"
    assert all(len(given) == 1 for given in names.values())
    assert all(times == sorted(times) for times in counters.values())
    for (pid, tid), spans in tracks.items():
        assert names["thread_name", pid, tid]
        assert names["process_name", pid, 0]
        open_until = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start + 1e-3:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-3
            open_until.append(end)


def test_phases_of_a_preempted_request():
    events = trace((0.0, 20.0), (0.0, 4, 6), (0.0, 4, 5), **TIGHT)
    check_format(events)
    assert slices(events, 2) == [
        ("request 1", 0.0, 13.75),
        ("prefill", 0.0, 3.0),
        ("4 tokens", 0.0, 3.0),
        ("decode", 3.0, 6.0),
        ("preempted", 6.0, 9.75),
        ("recompute", 9.75, 12.5),
        ("7 tokens", 9.75, 12.5),
        ("decode", 12.5, 13.75),
    ]
    whole = next(e for e in events if e["name"] == "request 1" and e["ph"] == "X")
    assert whole["args"]["preemptions"] == 1
    assert whole["args"]["finished_s"] == 13.75


def test_steps_and_counters():
    events = trace((0.0, 20.0), (0.0, 4, 6), (0.0, 4, 5), **TIGHT)
    steps = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert slices(events, 0)[:2] == [("prefill 8", 0.0, 3.0), ("decode 2", 3.0, 4.5)]
    assert [e["args"]["waiting"] for e in steps] == [0, 0, 0, 1, 1, 1, 0, 0]
    assert steps[3]["args"]["preempted"] == 1
    assert steps[1]["args"]["kv_usage_percent"] == 100
    waiting = [e["args"]["waiting"] for e in events if e["name"] == "requests"]
    assert waiting == [0, 0, 0, 1, 1, 1, 0, 0]


def test_a_window_cuts_and_leaves_out():
    # A prompt of 4 lasts 2 s; the second request waits for the first's step to end.
    events = trace((1.0, 3.0), (0.0, 4, 1), (0.5, 4, 1), (9.0, 4, 1), max_num_seqs=8)
    check_format(events)
    assert slices(events, 1) == [
        ("request 0", 1.0, 2.0), ("prefill", 1.0, 2.0), ("4 tokens", 1.0, 2.0)
    ]  # fmt: skip
    assert slices(events, 2) == [
        ("request 1", 1.0, 3.0), ("queue", 1.0, 2.0), ("prefill", 2.0, 3.0),
        ("4 tokens", 2.0, 3.0),
    ]  # fmt: skip
    assert slices(events, 3) == []


def test_each_replica_has_its_tracks():
    events = trace((0.0, 9.0), (0.0, 4, 1), (0.0, 4, 1), replicas=2)
    names = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "process_name"}
    assert names == {(1, "replica 0"), (2, "replica 1")}
    assert {e["pid"] for e in events if e["name"].startswith("request ") and e["ph"] == "X"} == {
        1, 2
    }  # fmt: skip


def test_idle_time_shows_in_the_counters():
    events = trace((0.0, 9.0), (0.0, 4, 1), (5.0, 4, 1))
    running = [(e["ts"] / SECOND, e["args"]["running"]) for e in events if e["name"] == "requests"]
    assert running == [(0.0, 1), (2.0, 0), (5.0, 1)]


def test_a_results_file_is_one_json_object(tmp_path):
    result = simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=50"]))
    result.write_perfetto(tmp_path / "trace.json", (1.0, 3.0))
    written = json.loads((tmp_path / "trace.json").read_text())
    assert written["otherData"]["window_s"] == [1.0, 3.0]
    check_format(written["traceEvents"])
    starts = [e["ts"] for e in written["traceEvents"] if e["ph"] == "X"]
    assert min(starts) >= 1.0 * SECOND
    steps = [e for e in written["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
    recorded = result.recording.steps
    assert len(steps) == ((recorded.end_s > 1) & (recorded.start_s < 3)).sum()
    # Chunks of prompts are those that the steps computed.
    inside = (recorded.start_s >= 1) & (recorded.end_s <= 3)
    chunks = [
        int(e["name"].removesuffix(" tokens"))
        for e in written["traceEvents"]
        if e["ph"] == "X" and e["name"].endswith(" tokens")
    ]
    assert sum(chunks) >= recorded.prefill_tokens[inside].sum() > 0


@pytest.mark.parametrize(
    ("text", "window"), [("10..20s", (10, 20)), ("1.5s..2", (1.5, 2)), (" 0 .. 3 s", (0, 3))]
)
def test_windows_are_read(text, window):
    assert parse_window(text) == window


@pytest.mark.parametrize("text", ["20..10s", "5", "a..b", "1..1", "-1..2", ""])
def test_other_windows_are_refused(text):
    with pytest.raises(InputError, match=r"write it like 10\.\.20s"):
        parse_window(text)
