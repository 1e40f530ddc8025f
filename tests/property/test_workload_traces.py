"""Trace readers under damage, order, and two ways of reading."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from trace_samples import TIMED, TWINS

from simulator.errors import InputError
from simulator.scenario.lengths import LengthsSpec
from simulator.workload.lengths import draw_lengths
from simulator.workload.quantiles import QuantileTable
from simulator.workload.streams import Streams
from simulator.workload.traces import FORMATS, pieces, read_trace, table
from simulator.workload.traces.layout import Layout
from simulator.workload.traces.servegen import draw_servegen
from simulator.workload.traces.source import Source
from simulator.workload.traces.write import write_trace

FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

AZURE = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2023-11-16 18:15:46.6805900,374,44\r\n"
    b'"2023-11-16T18:15:50.9951690Z",396,109\r\n'
    b"2023-11-16 18:15:51-07:00,879,55\r\n"
    b"2023-11-16 18:15:51,0x10,5.0\r\n"
)


MOONCAKE = (
    b'{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
    b'{"timestamp": 27.5, "input_length": 10, "output_length": 70}\n'
    b'{"created_time": 9, "input_tokens": 1e2, "output_tokens": 1, "hash_ids": [7]}\n'
)


OWN = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(b"%d,7,5\n" % i for i in range(50))


def parquet() -> bytes:
    """A small Parquet file of the simulator's own columns."""
    sink = pa.BufferOutputStream()
    columns = {"arrival_s": [0.0, 1.5], "prompt_tokens": [7, 8], "output_tokens": [5, 1]}
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


GOOD = {
    "azure": AZURE,
    "mooncake": MOONCAKE,
    "csv, gzip": gzip.compress(OWN, mtime=0),
    "csv, zstd": pa.compress(OWN, "zstd", asbytes=True),
    "csv, parquet": parquet(),
}


@st.composite
def damage(draw, good: bytes) -> bytes:
    """`good` with a few bytes changed, put in, taken out, or its end cut off."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        piece = draw(
            st.one_of(
                st.binary(min_size=1, max_size=3),
                st.sampled_from([b'"', b",", b"\n", b"\r", b"0", b"-", b"e", b".", b" ", b"\0"]),
                st.sampled_from([b"NaN", b"inf", b"0x", b"999999999999", b"{", b"[", b"null"]),
            )
        )
        how = draw(st.sampled_from(["change", "insert", "remove", "cut"]))
        if how == "change":
            data[at : at + len(piece)] = piece
        elif how == "insert":
            data[at:at] = piece
        elif how == "remove":
            del data[at : at + draw(st.integers(1, 30))]
        else:
            del data[at:]
    return bytes(data)


def check_read(path: Path, format: str = "auto") -> None:
    """Reads to a table that holds what it promises, or to one sentence."""
    for on_bad_row in ("error", "skip"):
        try:
            trace = read_trace(path, format, on_bad_row=on_bad_row)
        except InputError as error:
            sentence = str(error)
            assert "\n" not in sentence
            sentence.encode()  # can be printed
            continue
        assert len(trace) + sum(s.count for s in trace.skipped.values()) == trace.rows_read
        assert on_bad_row == "skip" or not trace.skipped
        assert trace.arrival_s[0] == 0
        assert (np.diff(trace.arrival_s) >= 0).all()
        assert np.isfinite(trace.arrival_s).all()
        assert min(trace.prompt_tokens.min(), trace.output_tokens.min()) >= 1


@pytest.mark.parametrize("name", GOOD)
@FEW
@given(st.data())
def test_damaged_bytes_give_a_result_or_a_sentence(tmp_path, name, data):
    path = tmp_path / "trace.csv"
    path.write_bytes(data.draw(damage(GOOD[name])))
    check_read(path)
    check_read(path, name.partition(",")[0])


SESSIONS = {
    "tracelab": b"session_id,arrival_time,round_idx,prefix_len,input_len,output_len,"
    b"tool_wait_after_ms\n1,5,0,0,9,3,20\n1,5,1,12,4,3,0\n0,0,0,0,7,2,0\n",
    "dynamo": b'{"session_id": "a", "timestamp": 5, "input_length": 600, "output_length": 3, '
    b'"hash_ids": [1, 2]}\n{"session_id": "a", "delay": 7, "input_length": 9, '
    b'"output_length": 1}\n',
    "weka": b'{"id": "t", "models": [], "block_size": 64, "requests": [{"t": 0, "in": 70, "out": '
    b'1, "hash_ids": [1]}, {"t": 4, "type": "subagent", "requests": [{"t": 1, "in": 5, "out": 2, '
    b'"hash_ids": []}]}, {"t": 9, "in": 99, "out": 1, "hash_ids": [1], "think_time": 3}]}\n',
    "llmservingsim": b'{"session_id": 3, "arrival_time_ns": 5, "sub_requests": [{"input_toks": 5,'
    b' "output_toks": 1, "tool_duration_ns": 9}, {"input_toks": 9, "output_toks": 1}]}\n'
    b'{"arrival_time_ns": 7, "input_toks": 5, "output_toks": 1}\n',
}


EVERY = {**TWINS, **{name: text.decode() for name, text in SESSIONS.items()}, "timed_trace": TIMED}


@pytest.mark.parametrize("name", FORMATS)
@settings(FEW, max_examples=25)
@given(st.data())
def test_damage_to_any_format_gives_a_result_or_a_sentence(tmp_path, name, data):
    path = tmp_path / "trace"
    path.write_bytes(data.draw(damage(EVERY[name].encode())))
    check_read(path)
    check_read(path, name)


SERVEGEN = {
    "chunk-0-trace.csv": b"0,0.5,1.0,Gamma,1.0,0.5\n600,0.1,1.2,Weibull,0.9,1\n",
    "chunk-0-dataset.json": b'{"0": {"input_tokens": "{9: 0.5, 20: 0.5}", '
    b'"output_tokens": "{3: 1}"}}',
}
OTHERS = {
    "cdf": (b"[[100, 0.2], [200, 1.0]]", {"distribution": "cdf", "output_share": 0.5}),
    "texts": (
        b'{"prompt": "a b", "output_tokens": 9}\n'
        b'{"conversations": [{"value": "a"}, {"value": "b"}]}',
        {"distribution": "empirical", "tokens_per_word": 1.3},
    ),
    "quantiles": (
        QuantileTable.of("x", np.arange(1, 60), np.arange(1, 60)).to_json().encode(),
        {"distribution": "quantiles"},
    ),
}


@pytest.mark.parametrize("file", SERVEGEN)
@settings(FEW, max_examples=40)
@given(st.data())
def test_damaged_servegen_folders_give_a_result_or_a_sentence(tmp_path, file, data):
    for name, good in SERVEGEN.items():
        text = data.draw(damage(good)) if name == file else good
        (tmp_path / name).write_bytes(text)
    try:
        trace = draw_servegen(tmp_path, Streams(0), limit=300)
    except InputError as error:
        sentence = str(error)
        assert "\n" not in sentence
    else:
        assert len(trace) <= 300


@pytest.mark.parametrize("name", OTHERS)
@settings(FEW, max_examples=40)
@given(st.data())
def test_damaged_lengths_give_a_result_or_a_sentence(tmp_path, name, data):
    good, section = OTHERS[name]
    (tmp_path / "file").write_bytes(data.draw(damage(good)))
    spec = TypeAdapter(LengthsSpec).validate_python({**section, "file": "file"})
    luck = np.linspace(-3, 3, 50)
    try:
        drawn = draw_lengths(spec, luck, luck, base_dir=tmp_path)
    except InputError as error:
        sentence = str(error)
        assert "\n" not in sentence
    else:
        assert min(drawn.prompt_tokens.min(), drawn.output_tokens.min()) >= 1


# Tenths of a us, which is what dates of seven digits tell.
rows_of_traces = st.lists(
    st.tuples(st.integers(0, 10**11), st.integers(1, 3000), st.integers(1, 2000)),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.parametrize("name", [n for n, layout in FORMATS.items() if layout.written])
@settings(FEW, max_examples=15)
@given(rows_of_traces)
def test_what_is_written_is_read_again(tmp_path, name, rows):
    own = tmp_path / "own.csv"
    cells = "".join(f"{t / 1e7!r},{p},{o}\n" for t, p, o in rows)
    own.write_text("arrival_s,prompt_tokens,output_tokens\n" + cells)
    trace = read_trace(own)
    write_trace(trace, tmp_path / "out", FORMATS[name])
    again = read_trace(tmp_path / "out", name)
    assert again.arrival_s == pytest.approx(trace.arrival_s, abs=2e-7)
    assert again.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert again.output_tokens.tolist() == trace.output_tokens.tolist()


turns_of_sessions = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 99)), min_size=2, max_size=4),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.mark.parametrize("name", ["dynamo", "tracelab", "weka", "llmservingsim", "csv"])
@settings(FEW, max_examples=15)
@given(turns_of_sessions)
def test_sessions_that_are_written_are_read_again(tmp_path, name, sessions):
    text = "arrival_s,session,prompt_tokens,output_tokens,think_time_s\n"
    for number, (start_ms, turns) in enumerate(sessions):
        said = 0
        for think_ms, tokens in turns:
            text += f"{start_ms / 1000},s{number},{said + tokens},5,{think_ms / 1000}\n"
            said += tokens + 5
    (tmp_path / "own.csv").write_text(text)
    trace = read_trace(tmp_path / "own.csv")
    write_trace(trace, tmp_path / "out", FORMATS[name])
    again = read_trace(tmp_path / "out", name)
    assert again.extra["turn"].tolist() == trace.extra["turn"].tolist()
    assert again.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert again.arrival_s == pytest.approx(trace.arrival_s, abs=1e-9)
    assert again.extra["think_s"] == pytest.approx(trace.extra["think_s"], abs=1e-9)


@FEW
@given(st.binary(max_size=200))
def test_any_bytes_give_a_sentence(tmp_path, data):
    path = tmp_path / "trace"
    path.write_bytes(data)
    check_read(path)


moments = st.datetimes(datetime(1970, 1, 2), datetime(2261, 12, 30))
zones = st.one_of(st.none(), st.integers(-23 * 60, 23 * 60).map(lambda m: timedelta(minutes=m)))


@st.composite
def stamps(draw) -> tuple[str, datetime]:
    """A moment as somebody wrote it, and what it is in UTC."""
    moment, offset = draw(moments), draw(zones)
    digits = draw(st.sampled_from(["", "0", "000"])) if moment.microsecond else ""
    text = moment.isoformat(draw(st.sampled_from("T "))) + digits
    if offset is None:
        return text, moment.replace(tzinfo=UTC)
    zoned = moment.replace(tzinfo=timezone(offset))
    return text + zoned.strftime("%z"), zoned.astimezone(UTC)


@FEW
@given(st.lists(stamps(), min_size=1, max_size=6))
def test_any_mixture_of_zones_and_digits_gives_the_true_times(tmp_path, written):
    path = tmp_path / "trace.csv"
    rows = "".join(f"{text},{i + 1},1\n" for i, (text, _) in enumerate(written))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    trace = read_trace(path)
    true = sorted((moment, i + 1) for i, (_, moment) in enumerate(written))
    assert trace.prompt_tokens.tolist() == [row for _, row in true]
    # Whole microseconds, divided once: the float nearest to the true difference.
    first = true[0][0]
    expected = [(moment - first) / timedelta(seconds=1) for moment, _ in true]
    assert trace.arrival_s == pytest.approx(expected, rel=1e-15, abs=0)


cells = st.text(alphabet="0123456789+-.eExXaN \t", max_size=6)


@FEW
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=3))
@example([("1", "0x10", "7")])
@example([("1", " 7\t", "007")])
@example([("1e400", "1", "1")])
def test_what_is_read_by_columns_is_read_the_same_by_rows(tmp_path, monkeypatch, rows):
    path = tmp_path / "trace.csv"
    text = io.StringIO()
    text.write("arrival_s,prompt_tokens,output_tokens\n")
    text.writelines(",".join(row) + "\n" for row in rows)
    path.write_text(text.getvalue())
    check_both_ways(path, FORMATS["csv"], monkeypatch)


def check_both_ways(path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading in pieces gives what reading row by row gives: columns, places, sentences."""
    source = Source.of(path)
    results: list[object] = []
    for in_pieces in (True, False):
        with monkeypatch.context() as patch:
            if not in_pieces:
                patch.setattr(table, "pieces", lambda source, names: None)
            for on_bad_row in ("skip", "error"):
                try:
                    read = table.read_table(source, layout, on_bad_row)
                except InputError as error:
                    results.append(str(error))
                    continue
                columns = {role: values.tolist() for role, values in read.columns.items()}
                results.append((columns, read.rows_read, read.skipped, read.quirks))
    assert results[:2] == results[2:]


lines = st.sampled_from([
    "2024-05-12 00:00:00.5,12,3", "2024-05-12T00:00:01Z,5,6", "2024-05-12 01:00:00+02:00,5,6",
    "2024-05-12 00:00:02,0,3", "x,1,1", "2024-05-12 00:00:03,1", "", '"2024-05-12 00:00:04",7,"8"',
    "2024-05-12 00:00:05,NaN,1", "2024-05-12 00:00:05,1,1,1", '2024-05-12 00:00:06,"1\n",1',
    '2024-05-12 00:00:07,"1,1', "2024-05-12 00:00:08,,1", "2024-05-12 00:00:09,1e1,2\r",
])  # fmt: skip


@settings(FEW, max_examples=120)
@given(st.lists(lines, max_size=40), st.booleans(), st.integers(1, 200))
def test_pieces_of_any_size_give_the_same(tmp_path, monkeypatch, rows, ended, size):
    path = tmp_path / "trace.csv"
    text = "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n" * ended
    path.write_bytes(text.encode())
    monkeypatch.setattr(pieces, "PIECE_BYTES", size)
    monkeypatch.setattr(pieces, "LEAST_BYTES", size // 4)
    check_both_ways(path, FORMATS["azure"], monkeypatch)


@settings(FEW, max_examples=50)
@given(st.lists(st.one_of(st.integers(-1, 9), st.none()), min_size=1, max_size=40))
def test_parquet_in_pieces_gives_the_same(tmp_path, monkeypatch, prompts):
    path = tmp_path / "trace.parquet"
    n = len(prompts)
    columns = {"arrival_s": [1.0] * n, "prompt_tokens": prompts, "output_tokens": [2] * n}
    pq.write_table(pa.table(columns), path)
    monkeypatch.setattr(pieces, "PIECE_ROWS", 16)
    monkeypatch.setattr(pieces, "LEAST_ROWS", 2)
    check_both_ways(path, FORMATS["csv"], monkeypatch)


@FEW
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=30),
    st.floats(0, 2e6),
    st.one_of(st.none(), st.floats(0.001, 2e6)),
    st.one_of(st.none(), st.integers(1, 40)),
)
def test_a_window_holds_just_its_requests(tmp_path, arrivals, skip_s, duration_s, limit):
    path = tmp_path / "trace.csv"
    rows = "".join(f"{arrival!r},{i + 1},1\n" for i, arrival in enumerate(arrivals))
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    trace = read_trace(path)
    part = trace.window(skip_s=skip_s, duration_s=duration_s, limit=limit)
    end = np.inf if duration_s is None else skip_s + duration_s
    inside = (trace.arrival_s >= skip_s) & (trace.arrival_s < end)
    assert part.prompt_tokens.tolist() == trace.prompt_tokens[inside].tolist()[:limit]
    assert (part.arrival_s >= 0).all()
