"""Every format against rows written by hand from its description, and real files."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_samples import ARRIVALS, OUTPUTS, PROMPTS, TIMED, TWINS

from simulator.errors import InputError
from simulator.workload.traces import FORMATS, read_trace


def check(trace):
    assert trace.arrival_s.tolist() == ARRIVALS
    assert trace.prompt_tokens.tolist() == PROMPTS
    assert trace.output_tokens.tolist() == OUTPUTS


@pytest.fixture
def write(tmp_path):
    def _write(content, name="trace"):
        path = tmp_path / name
        path.write_text(content)
        return path

    return _write


def test_every_format_has_a_twin():
    assert set(TWINS) | {"timed_trace"} == set(FORMATS)


@pytest.mark.parametrize("name", TWINS)
def test_the_same_requests_from_every_format(write, name):
    path = write(TWINS[name])
    trace = read_trace(path)
    assert trace.format == name
    check(trace)
    check(read_trace(path, name))


@pytest.mark.parametrize("name", [n for n in TWINS if TWINS[n].startswith("{")])
def test_a_list_of_objects_is_as_good_as_lines(write, name):
    rows = [json.loads(line) for line in TWINS[name].splitlines()]
    check(read_trace(write(json.dumps(rows, indent=1))))


@pytest.mark.parametrize("name", ["mooncake", "bailian", "csv"])
def test_parquet_of_the_same_columns(tmp_path, name):
    if TWINS[name].startswith("{"):
        rows = [json.loads(line) for line in TWINS[name].splitlines()]
        table = pa.Table.from_pylist(rows)
    else:
        table = pa.table(
            {"arrival_s": ARRIVALS, "prompt_tokens": PROMPTS, "output_tokens": OUTPUTS}
        )
    pq.write_table(table, tmp_path / "trace.parquet")
    check(read_trace(tmp_path / "trace.parquet"))


def test_milliseconds_or_seconds_is_asked_where_columns_do_not_tell(write):
    path = write(TIMED)
    with pytest.raises(InputError, match="fit mooncake and timed_trace alike .*say which"):
        read_trace(path)
    check(read_trace(path, "timed_trace"))
    assert read_trace(path, "mooncake").arrival_s.tolist() == [0, 0.00025, 0.0015]


@pytest.mark.parametrize(
    ("name", "good", "bad", "said"),
    [
        ("burstgpt", "605", "604", "the row has Total tokens other than Request tokens +"),
        ("burstgpt", ",600,5,605", ",0,0,0", "column Request tokens: '0' is less than 1"),
        ("splitwise", "1.0,1,", "1.0,4,", "the row stands for several requests (batch_size)"),
        ("mooncake", "[0, 1]", "[0]", "another number of hash_ids than its prompt has blocks"),
        ("mooncake", "[0, 1]", "7", "column hash_ids: 7 is not a list"),
        ("mooncake", "1000,", '"1000",', "column timestamp: '1000' is not a number from"),
        ("mooncake", "1000,", "NaN,", "column timestamp: nan is not a number from"),
        ("mooncake", "1000,", "1" + "0" * 400 + ",", "000... is not a number from -1e20 to 1e20"),
        ("mooncake", "1000,", "true,", "column timestamp: True is not a number from"),
        ("mooncake", '"timestamp": 1000, ', "", "column timestamp is missing"),
        ("mooncake", "600,", "600.5,", "column input_length: 600.5 is not a whole number"),
        ("mooncake", '[0, 1]}', "[0, 1]", "the row is not valid JSON"),
        ("llmservingsim", '{"input_toks": 600', '[{"input_toks": 600', "not valid JSON"),
        ("bailian", '"chat_id": 100', '"chat_id": null', "column chat_id is missing"),
    ],
)  # fmt: skip
def test_bad_rows_of_other_formats(write, name, good, bad, said):
    lines = TWINS[name].splitlines()
    first = 0 if lines[0].startswith("{") else 1
    lines.insert(len(lines), lines[first].replace(good, bad, 1))
    assert lines[-1] != lines[first]
    path = write("\n".join(lines) + "\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert f"line {len(lines)}: " in str(caught.value)
    assert said in str(caught.value)
    trace = read_trace(path, on_bad_row="skip")
    check(trace)
    assert sum(s.count for s in trace.skipped.values()) == 1


def test_what_a_format_holds_and_is_not_simulated_is_said(write):
    later = TWINS["mooncake"].replace(
        '"input_length": 10,', '"session_id": "s", "input_length": 10,'
    )
    assert "sessions (session_id) are not kept" in "\n".join(read_trace(write(later)).notes)


@pytest.mark.parametrize("name", ["mooncake_conversation_first1000", "mooncake_synthetic_first500"])
def test_mooncake_files_row_by_row(shared, name):
    path = shared / "traces/mooncake" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    trace = read_trace(path)
    order = np.argsort([row["timestamp"] for row in rows], kind="stable")
    rows = [rows[i] for i in order]
    assert trace.arrival_s == pytest.approx([row["timestamp"] / 1000 for row in rows])
    assert trace.prompt_tokens.tolist() == [row["input_length"] for row in rows]
    assert trace.output_tokens.tolist() == [row["output_length"] for row in rows]


@pytest.mark.parametrize(
    ("name", "failed", "first", "second"),
    [
        # By hand from the first two lines: 45 - 5 and 19440161 - 19440110 seconds.
        ("BurstGPT_1_head125.csv", 8, (472, 18), 40.0),
        ("BurstGPT_3_schema20.csv", 1, (906, 446), 51.0),
    ],
)
def test_burstgpt_files(shared, name, failed, first, second):
    path = shared / "traces/burstgpt" / name
    with pytest.raises(InputError, match="column Request tokens: '0' is less than 1"):
        read_trace(path)
    trace = read_trace(path, on_bad_row="skip", turns="as_recorded")
    lines = path.read_text().splitlines()[1:]
    assert len(trace) == len(lines) - failed
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == first
    assert trace.arrival_s[1] == second


def test_dirty_burstgpt(shared):
    trace = read_trace(shared / "traces/dirty/burstgpt_like_bad.csv", on_bad_row="skip")
    # Left: 100.0 s 20/5 and, recorded before it, 99.0 s 30/4.
    assert trace.prompt_tokens.tolist() == [30, 20]
    assert trace.arrival_s.tolist() == [0, 1]
    assert sum(s.count for s in trace.skipped.values()) == 3


def test_dirty_mooncake(shared):
    path = shared / "traces/dirty/mooncake_like_bad.jsonl"
    with pytest.raises(InputError, match="line 2: the row has another number of hash_ids"):
        read_trace(path)
    trace = read_trace(path, on_bad_row="skip")
    assert trace.arrival_s.tolist() == [0, 4, 4, 5]
    assert trace.prompt_tokens.tolist() == [1024, 512, 512, 512]
    assert trace.rows_read == 10
    assert any("is not valid JSON (the file ends" not in r for r in trace.skipped)


LOG = "when,in,out,who\n2024-05-01 10:00:00.5Z,5,6,x\n2024-05-01 10:00:02Z,7,8,y\n"
NAMES = {"arrival_s": "when", "prompt_tokens": "in", "output_tokens": "out", "id": "who"}


def test_any_columns_with_a_mapping(write):
    trace = read_trace(write(LOG), columns=NAMES, time_unit="date")
    assert trace.arrival_s.tolist() == [0, 1.5]
    assert trace.prompt_tokens.tolist() == [5, 7]
    assert trace.extra["id"].tolist() == ["x", "y"]
    assert "columns as given, times in date" in trace.notes[0]
    ms = write(LOG.replace("2024-05-01 10:00:00.5Z", "500").replace("2024-05-01 10:00:02Z", "2000"))
    for unit, seconds in (("s", 1500.0), ("ms", 1.5), ("us", 1.5e-3), ("ns", 1.5e-6)):
        trace = read_trace(ms, columns=NAMES, time_unit=unit)
        assert trace.arrival_s[1] == pytest.approx(seconds, rel=1e-12)


def test_wrong_mappings_are_refused(write):
    path = write(LOG)
    for columns, format, said in (
        ({**NAMES, "output_tokens": "ou"}, "auto", "has no column ou "),
        ({"arrival_s": "when", "prompt_tokens": "in"}, "auto", "has no column output_tokens"),
        ({"prompt": "in"}, "auto", "'prompt' is no column of ours; they are arrival_s, prompt"),
        (NAMES, "azure", "format is azure, whose columns and units are known"),
    ):
        with pytest.raises(InputError, match=said):
            read_trace(path, format, columns=columns, time_unit="date")
    with pytest.raises(InputError, match="line 2: column when: '2024-05-01 10:00:00.5Z' is not"):
        read_trace(path, columns=NAMES)


def test_azures_multimodal_trace(write):
    path = write(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2024-10-15T00:00:00.500Z,1,600,5\n2024-10-15T00:00:00.750Z,0,10,70\n"
        "2024-10-15T00:00:02.000Z,2,1024,1\n"
    )
    trace = read_trace(path)
    assert trace.format == "azure"
    check(trace)
    assert "images of a request (NumImages) are not simulated" in "\n".join(trace.notes)


def test_guidellms_rows_of_weka(write):
    rows = [{"t": t, "in": 70, "out": 2, "id": who, "hash_ids": [k]}
            for t, who, k in ((0, "a", 1), (1, "b", 1), (5, "a", 1))]  # fmt: skip
    trace = read_trace(write("".join(json.dumps(row) + "\n" for row in rows)))
    assert trace.format == "weka"
    assert trace.extra["turn"].tolist() == [0, 1, 0]
    assert trace.extra["think_s"].tolist() == [0, 5, 0]
