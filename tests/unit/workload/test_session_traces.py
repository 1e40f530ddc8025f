"""Traces of sessions: what each turn waits for, and what its prompt repeats."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator import Scenario, simulate
from simulator.errors import InputError
from simulator.kv_cache import prefix
from simulator.scenario import WorkloadSpec
from simulator.workload import build_requests
from simulator.workload.content import output_tag, own_tag
from simulator.workload.traces import FORMATS, read_trace
from simulator.workload.traces.statistics import describe
from simulator.workload.traces.write import write_trace

TRACELAB = (
    "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"
    "b,700,1,112,20,7,0\n"
    "a,200,0,0,100,10,250\n"
    "b,700,0,0,100,12,90\n"
    "a,200,1,110,20,5,500\n"
    "a,200,2,60,30,4,0\n"
)


@pytest.fixture
def write(tmp_path):
    def _write(content, name="trace"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else lines(content))
        return path

    return _write


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def made(path, **workload):
    spec = WorkloadSpec.model_validate({"trace": {"path": path.name}, **workload})
    return build_requests(spec, base_dir=path.parent, max_model_len=10**6, seed=0)


def pieces(requests, row):
    first, last = requests.segment_offsets[row : row + 2]
    return [tuple(piece) for piece in requests.segments[first:last].tolist()]


def test_tracelab_by_hand(write):
    requests = made(write(TRACELAB))
    # Session a starts first; its rows are 0 to 2, b's 3 and 4.
    assert requests.arrival_s.tolist() == [0, 0, 0, 0.5, 0.5]
    assert requests.prompt_tokens.tolist() == [100, 130, 90, 100, 132]
    assert requests.next_request.tolist() == [1, 2, -1, 4, -1]
    assert requests.think_s.tolist() == [0.25, 0.5, 0, 0.09, 0]
    assert pieces(requests, 1) == [(own_tag(0), 100), (output_tag(0), 10)]
    # The third turn of a goes back to the first 60 tokens.
    assert pieces(requests, 2) == [(own_tag(0), 60)]
    assert pieces(requests, 4) == [(own_tag(3), 100), (output_tag(3), 12)]


def test_tags_are_those_of_the_prefix_cache():
    for row in (0, 1, 77):
        assert own_tag(row) == prefix.own_tag(row)
        assert output_tag(row) == prefix.output_tag(row)


def test_dynamo_sessions(write):
    rows = [
        {"session_id": "x", "timestamp": 1000, "input_length": 10, "output_length": 2},
        {"session_id": "y", "timestamp": 3000, "input_length": 600, "output_length": 9,
         "hash_ids": [1, 2]},
        {"session_id": "x", "delay": 500.0, "input_length": 20, "output_length": 3},
        {"session_id": "y", "timestamp": 4500, "input_length": 700, "output_length": 9,
         "hash_ids": [1, 3]},
    ]  # fmt: skip
    path = write(rows)
    trace = read_trace(path)
    assert trace.format == "dynamo"
    assert trace.arrival_s.tolist() == [0, 0, 2, 2]
    # Without a delay: from stamp to stamp, which is said.
    assert trace.extra["think_s"].tolist() == [0, 0.5, 0, 1.5]
    assert any("turns without a think time" in note for note in trace.notes)
    requests = made(path)
    assert pieces(requests, 2) == [(0, 512), (1, 88)]
    assert pieces(requests, 3) == [(0, 512), (2, 188)]


def test_llmservingsim_sessions_beside_single_requests(write):
    path = write([
        {"input_toks": 5, "output_toks": 1, "arrival_time_ns": 3e9},
        {"session_id": "s", "arrival_time_ns": 1e9, "sub_requests": [
            {"input_toks": 10, "output_toks": 4, "tool_duration_ns": 2e9},
            {"input_toks": 20, "output_toks": 2, "tool_duration_ns": 0},
        ]},
    ])  # fmt: skip
    requests = made(path)
    assert requests.arrival_s.tolist() == [0, 0, 2]
    assert requests.prompt_tokens.tolist() == [10, 20, 5]
    assert requests.next_request.tolist() == [1, -1, -1]
    assert requests.think_s.tolist() == [2, 0, 0]
    assert pieces(requests, 1) == [(own_tag(0), 10), (output_tag(0), 4)]
    nested_first = path.read_text().splitlines()[::-1]
    assert len(made(write("\n".join(nested_first), "other"))) == 3
    bad = {"session_id": "s", "arrival_time_ns": 1, "sub_requests": [{"input_toks": 3}]}
    with pytest.raises(InputError, match="line 1, sub-request 1: column output_toks is missing"):
        read_trace(write([bad], "bad"))


WEKA = {
    "id": "t1", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 1,
    "system_tokens": 2,
    "requests": [
        {"t": 0.0, "type": "n", "model": "m", "in": 130, "out": 5, "hash_ids": [1, 2],
         "api_time": 2.0, "think_time": 0.0},
        {"t": 10.0, "type": "subagent", "agent_id": "a1", "duration_ms": 5000, "requests": [
            {"t": 0.0, "type": "s", "model": "m", "in": 64, "out": 3, "hash_ids": [1],
             "api_time": 1.0, "think_time": 0.0},
            {"t": 4.0, "type": "s", "model": "m", "in": 70, "out": 3, "hash_ids": [1],
             "api_time": 1.0, "think_time": 2.5},
        ]},
        {"t": 20.0, "type": "n", "model": "m", "in": 200, "out": 4, "hash_ids": [1, 2, 3],
         "api_time": 2.0},
    ],
}  # fmt: skip


def test_weka_nested(write):
    path = write([WEKA, {**WEKA, "id": "t2"}])
    trace = read_trace(path)
    assert trace.format == "weka"
    # Both sessions at 0; a sub-agent's rows come behind those of its session.
    assert trace.arrival_s.tolist() == [0] * 8
    assert trace.starts.tolist() == [0, 4]
    assert trace.prompt_tokens.tolist() == [130, 200, 64, 70] * 2
    # The first turn ends at 2, the sub-agent starts at 10 and ends at 15, the next turn is at 20.
    assert trace.extra["think_s"].tolist() == [0, 5, 8, 2.5] * 2
    requests = made(path)
    assert requests.next_request.tolist() == [1, -1, 3, -1, 5, -1, 7, -1]
    links = {tuple(link): s for link, s in zip(requests.links.tolist(), requests.link_s.tolist(),
                                               strict=True)}  # fmt: skip
    assert links == {(0, 2): 8, (3, 1): 5, (4, 6): 8, (7, 5): 5}
    tags = [[tag for tag, _ in pieces(requests, row)] for row in range(8)]
    assert tags[1][:2] == tags[0]
    assert tags[2] == tags[3] == tags[0][:1]  # a sub-agent shares its session's blocks
    assert not set(tags[0]) & set(tags[4])  # another session does not
    with pytest.raises(InputError, match="has a block_size other than 64"):
        read_trace(write([{**WEKA, "block_size": 128}], "other"))


def test_recorded_weka_sessions(shared):
    path = shared / "traces/weka/claude_code_weka_40sessions.jsonl"
    with pytest.raises(InputError, match="line 634: column out: 0 is less than 1"):
        read_trace(path)
    trace = read_trace(path, on_bad_row="skip")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for row in rows if row["out"] > 0]
    chains = {}
    for row in rows:
        chains.setdefault((row["session"], row["agent"]), []).append(row)
    flat = [row for chain in chains.values() for row in sorted(chain, key=lambda r: r["i"])]
    assert trace.prompt_tokens.tolist() == [row["in"] for row in flat]
    assert np.count_nonzero(trace.extra["turn"] == 0) == len(chains)
    told = [i for i, row in enumerate(flat) if row["think"] is not None]
    think_s = trace.extra["think_s"][told]
    follows = trace.extra["turn"][told] > 0
    assert think_s[follows].tolist() == [flat[i]["think"] for i in np.array(told)[follows]]
    assert [len(b) // 8 for b in trace.extra["blocks"]] == [
        sum(count for _, count in row["hash_rle"]) for row in flat
    ]


@pytest.mark.parametrize("name", ["multi_session_example", "multi_session_large"])
def test_recorded_tracelab_sessions_find_their_history(shared, name):
    path = shared / "traces/tracelab" / f"{name}.csv"
    requests = made(path)
    trace = read_trace(path)
    starts = np.flatnonzero(trace.extra["turn"] == 0)
    # In these files each prefix is all of the turn before, less a few tokens at most.
    for row in np.flatnonzero(trace.extra["turn"] > 0).tolist():
        shared_tokens = sum(length for _, length in pieces(requests, row))
        assert shared_tokens == trace.extra["prefix_tokens"][row]
    scenario = Scenario.from_mapping(
        {
            "workload": {"trace": {"path": str(path)}},
            "model": "llama-3.1-8b",
            "scheduler": {"async_scheduling": False},
            "kv_cache": {"enable_prefix_caching": True, "num_gpu_blocks": 100_000},
            "cost_model": {"kind": "linear", "t_mem_s": 0.001, "t_flop_s_per_token": 1e-7},
        }
    )
    outcome = simulate(scenario).recording.outcome
    # All whole blocks of a prefix but that of the last output token, which has no KV yet.
    prompt, output = trace.prompt_tokens, trace.output_tokens
    expected = np.zeros(len(trace), np.int64)
    for row in range(len(trace)):
        if row not in starts:
            known = min(trace.extra["prefix_tokens"][row], prompt[row - 1] + output[row - 1] - 1)
            expected[row] = min(known, prompt[row] - 1) // 16 * 16
    assert outcome.cached_tokens.tolist() == expected.tolist()
    follower = np.flatnonzero(trace.extra["turn"] > 0)
    assert outcome.arrival_s[follower] == pytest.approx(
        outcome.finished_s[follower - 1] + trace.extra["think_s"][follower], abs=1e-12
    )


@pytest.mark.parametrize("name", ["dynamo", "tracelab", "llmservingsim", "weka", "csv"])
def test_sessions_round_trip(write, tmp_path, name):
    # Prompts that repeat all that was said, since not every format can tell anything else.
    rows = TRACELAB.replace("a,200,2,60,30", "a,200,2,135,30")
    trace = read_trace(write(rows))
    path = tmp_path / "out"
    write_trace(trace, path, FORMATS[name])
    again = read_trace(path)
    assert again.format == name
    for column in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(again, column).tolist() == getattr(trace, column).tolist()
    for role in ("turn", "think_s"):
        assert again.extra[role].tolist() == trace.extra[role].tolist()
    if "prefix_tokens" in again.extra:
        assert again.extra["prefix_tokens"].tolist() == trace.extra["prefix_tokens"].tolist()


def test_sessions_are_not_written_where_they_would_be_lost(write, tmp_path):
    trace = read_trace(write(TRACELAB))
    with pytest.raises(InputError, match="sessions whose turns wait .* format mooncake cannot"):
        write_trace(trace, tmp_path / "out", FORMATS["mooncake"])


def test_weka_becomes_tracelab(write, tmp_path):
    write_trace(read_trace(write([WEKA])), tmp_path / "out", FORMATS["tracelab"])
    # It cannot tell sub-agents: one becomes a session 8 s after the first turn, and the second
    # turn comes when it would have ended, 8 + 2.5 s, and 5 s on.
    assert (tmp_path / "out").read_text().splitlines()[1:] == [
        "s0,0,0,0,130,5,15500", "s0,1,0,128,72,4,0", "s1,0,8000,0,64,3,2500", "s1,1,8000,64,6,3,0"
    ]  # fmt: skip


def test_sub_agents_round_trip_through_weka(write, tmp_path):
    trace = read_trace(write([WEKA, {**WEKA, "id": "t2"}]))
    write_trace(trace, tmp_path / "out", FORMATS["weka"])
    again = read_trace(tmp_path / "out")
    for column in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(again, column).tolist() == getattr(trace, column).tolist()
    for role in ("turn", "think_s", "fork", "join", "join_s"):
        assert again.extra[role].tolist() == trace.extra[role].tolist()


def test_flat_weka_rows_do_not_tell_where_sub_agents_start(write):
    rows = [
        {"session": "s", "agent": agent, "i": i, "t": t, "in": 70, "out": 2, "think": 1.0}
        for agent, i, t in ((None, 0, 0.0), (None, 1, 9.0), ("x", 0, 0.0))
    ]
    trace = read_trace(write(rows))
    assert trace.starts.tolist() == [0, 2]
    assert any("sub-agents whose place is not told: 1" in note for note in trace.notes)


def test_sessions_are_cut_and_drawn_as_a_whole(write):
    rows = [f"{s},{1000 * s},{k},0,{10 + s},2,5" for s in range(80) for k in range(3)]
    head = TRACELAB.splitlines()[0]
    path = write("\n".join([head, *rows]) + "\n")
    window = made(path, trace={"path": path.name, "skip_s": 10, "duration_s": 20})
    assert len(window) == 60
    assert np.count_nonzero(window.next_request >= 0) == 40
    spec = WorkloadSpec.model_validate({"trace": {"path": path.name}})
    again = build_requests(spec, base_dir=path.parent, max_model_len=9999, seed=0, replicate=1)
    assert len(again) == 240
    assert np.count_nonzero(again.next_request >= 0) == 160
    assert (again.prompt_tokens.reshape(80, 3).std(axis=1) == 0).all()
    assert any("blocks of 3 consecutive sessions" in note for note in again.notes)


def test_own_table_of_sessions(write):
    path = write(
        "arrival_s,session,prompt_tokens,output_tokens,think_time_s,prefix_tokens\n"
        "1,a,10,2,,\n2,,7,3,,\n1,a,20,4,2.5,\n1,a,30,4,1.5,6\n"
    )
    requests = made(path)
    assert requests.arrival_s.tolist() == [0, 0, 0, 1]
    assert requests.prompt_tokens.tolist() == [10, 20, 30, 7]
    assert requests.next_request.tolist() == [1, 2, -1, -1]
    assert requests.think_s.tolist() == [2.5, 1.5, 0, 0]
    assert pieces(requests, 1) == [(own_tag(0), 10), (output_tag(0), 2)]
    assert pieces(requests, 2) == [(own_tag(0), 6)]


def test_what_is_said_about_a_trace_of_sessions(write):
    found = describe(read_trace(write(TRACELAB)))
    # Starts at 0.2 and 0.7 s; 3 and 2 turns; think times 250, 500 and 90 ms.
    assert found["span_s"] == 0.5
    assert found["rate"] == 2.0
    assert found["sessions"] == {
        "count": 2, "mean_turns": 2.5, "max_turns": 3, "mean_think_s": pytest.approx(0.28),
        "median_think_s": 0.25,
    }  # fmt: skip
    assert not found["oddities"]


BURSTGPT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "100.0,a,4,GPT-4,20,5,25,Conversation log\n"
    "103.0,,2,GPT-4,9,1,10,API log\n"
    "110.0,a,3,GPT-4,30,6,36,Conversation log\n"
    "120.0,a,3,GPT-4,12,6,18,Conversation log\n"
)


def test_burstgpt_sessions_by_hand(write):
    requests = made(write(BURSTGPT))
    assert requests.arrival_s.tolist() == [0, 0, 0, 3]
    assert requests.next_request.tolist() == [1, 2, -1, -1]
    # 110 - 100 - 4 and 120 - 110 - 3 seconds after the answers.
    assert requests.think_s.tolist() == [6, 7, 0, 0]
    assert pieces(requests, 1) == [(own_tag(0), 20), (output_tag(0), 5)]
    assert pieces(requests, 2) == []  # 12 tokens cannot repeat the 36 before
    open_loop = made(write(BURSTGPT), trace={"path": "trace", "turns": "as_recorded"})
    assert open_loop.arrival_s.tolist() == [0, 3, 10, 20]
    assert not open_loop.has_sessions


def test_recorded_burstgpt_sessions(shared):
    path = shared / "traces/burstgpt/BurstGPT_3_schema20.csv"
    trace = read_trace(path, on_bad_row="skip")
    # From the file: 8b74c7d8 has 4 turns, 8219e6e1 3, 1722ac82 and 70d0486e 2; the rest are alone.
    counts = np.diff(trace.starts, append=len(trace))
    assert sorted(counts.tolist())[-5:] == [1, 2, 2, 3, 4]
    # 19440301 - 19440110 - 43 s between the two turns of 1722ac82.
    second = np.flatnonzero(trace.prompt_tokens == 1631)
    assert trace.extra["think_s"][second] == 148


def test_recorded_times_have_no_effect_without_sessions(write):
    path = write("arrival_s,prompt_tokens,output_tokens\n1,2,3\n")
    assert "turns: as_recorded has no effect" in read_trace(path, turns="as_recorded").notes[-1]


def test_turns_at_recorded_times_need_them(write):
    rows = TRACELAB.replace("arrival_time,", "").replace("b,700,", "b,").replace("a,200,", "a,")
    with pytest.raises(InputError, match="does not tell when each turn arrived; use turns: wait"):
        read_trace(write(rows), turns="as_recorded")


def test_bailian_parents_make_sessions(write):
    def row(chat, parent, t, tokens):
        return {"chat_id": chat, "parent_chat_id": parent, "timestamp": t, "input_length": tokens,
                "output_length": 2, "turn": 1, "type": "text"}  # fmt: skip

    rows = [row(1, -1, 5, 10), row(2, -1, 6, 10), row(3, 1, 15, 20), row(4, 1, 16, 20),
            row(5, 3, 45, 40), row(6, 99, 50, 10)]  # fmt: skip
    trace = read_trace(write(rows))
    # 1, 3 and 5 follow one another; 4 branches off 1, and 99 is not in the file.
    assert trace.extra["id"].tolist() == ["1", "3", "5", "2", "4", "6"]
    assert trace.extra["turn"].tolist() == [0, 1, 2, 0, 0, 0]
    assert trace.arrival_s.tolist() == [0, 0, 0, 1, 11, 45]
    assert trace.extra["think_s"].tolist() == [0, 10, 30, 0, 0, 0]


def test_blis_rounds_groups_and_counts(write):
    path = write(
        "request_id,session_id,round_index,prefix_group,prefix_length,input_tokens,output_tokens,"
        "server_input_tokens,arrival_time_us,last_chunk_time_us\n"
        "0,s,0,,0,10,5,14,1000000,3000000\n1,s,1,,0,30,5,0,4000000,5000000\n"
        "2,,0,g,8,10,5,18,2000000,0\n3,,0,g,8,4,5,0,2500000,0\n"
    )
    requests = made(path)
    # 14 as the server counted; 8 + 10 and 8 + 4 of group g.
    assert requests.prompt_tokens.tolist() == [14, 30, 18, 12]
    assert requests.arrival_s.tolist() == [0, 0, 1, 1.5]
    assert requests.think_s.tolist() == [1, 0, 0, 0]  # 4 - 3 s
    assert pieces(requests, 1) == [(own_tag(0), 14), (output_tag(0), 5)]
    assert pieces(requests, 2) == pieces(requests, 3) == [(1, 8)]
    with pytest.raises(InputError, match="the trace's prefix groups tell what prompts share"):
        made(path, shared_prefix_tokens=5)


@pytest.mark.parametrize("format", ["mooncake", "dynamo"])
def test_a_higher_priority_is_more_urgent_in_dynamo(write, tmp_path, format):
    rows = [
        {"timestamp": t, "input_length": 5, "output_length": 1, "priority": p, "session_id": str(t)}
        for t, p in ((0, 3), (1, 0), (2, -1))
    ]
    trace = read_trace(write(rows), format)
    assert trace.extra["priority"].tolist() == [-3, 0, 1]
    write_trace(trace, tmp_path / "out", FORMATS[format])
    assert read_trace(tmp_path / "out", format).extra["priority"].tolist() == [-3, 0, 1]


def test_sessions_at_dates(write):
    path = write("when,who,in,out\n2024-05-01 10:00:00,a,5,1\n2024-05-01 10:00:09,a,7,1\n")
    names = {"arrival_s": "when", "session": "who", "prompt_tokens": "in", "output_tokens": "out"}
    trace = read_trace(path, columns=names, time_unit="date")
    assert trace.extra["think_s"].tolist() == [0, 9]


def test_recorded_rounds_of_tracelab(shared):
    path = shared / "traces/tracelab/sanitized_round_trace.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    trace = read_trace(path)
    assert trace.format == "tracelab_rounds"
    # The codex session is recorded two months before the claude one.
    assert [row["session_id"].partition(":")[0] for row in rows] == ["claude"] * 10 + ["codex"] * 9
    assert trace.extra["turn"].tolist() == [*range(9), *range(10)]
    assert trace.prompt_tokens.tolist() == [
        row["input_tokens_total"] for row in [*rows[10:], *rows[:10]]
    ]
    # The claude session: a tool's result comes 49 ms after the call that ended the first round,
    # and 19.9 s pass from the text that ended the fifth to the user's next message.
    think_s = trace.extra["think_s"][9:]
    assert think_s[1] == pytest.approx(0.049, abs=1e-6)
    assert think_s[5] == pytest.approx(19.913, abs=1e-6)
    with pytest.raises(InputError, match="format tracelab_rounds is only read"):
        write_trace(trace, path, FORMATS["tracelab_rounds"])
