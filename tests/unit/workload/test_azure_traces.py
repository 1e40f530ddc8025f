"""Azure-format traces: what good files give and what bad ones say."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulator.errors import InputError
from simulator.workload.traces import read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
GOOD = (
    HEADER
    + "2023-11-16 18:15:46.6805900,374,44\n"
    + "2023-11-16 18:15:50.9951690,396,109\n"
    + "2023-11-16 18:15:51.2224670,879,55\n"
)
ARRIVALS = [0.0, 4.314579, 4.541877]  # by hand from GOOD


@pytest.fixture
def write(tmp_path: Path):
    def _write(content: str | bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_trace(path, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    return sentence


def spoken(path: Path, **options: str) -> str:
    return "\n".join(read_trace(path, **options).notes)


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.rstrip("\n"),
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r\n").rstrip("\r\n"),
        "\ufeff" + GOOD,
        GOOD + "\n\n",
        "\n" + GOOD,
        GOOD.replace("2023-11-16 18:15:50.9951690", '"2023-11-16 18:15:50.9951690"'),
        GOOD.replace(",396,", ', 396 ,"').replace("109\n", '109"\n'),
        GOOD.replace("16 18", "16T18"),
        GOOD.replace("00,3", "00Z,3").replace("90,3", "90Z,3").replace("70,8", "70Z,8"),
        GOOD.replace("00,3", "00+00:00,3").replace("90,3", "90+00:00,3").replace("70,8", "70+00,8"),
        GOOD.replace("18:15:50.9951690", "11:15:50.9951690-07:00"),
        GOOD.replace("00,374,44", "00,374.0,4.4e1"),
        GOOD.replace("TIMESTAMP,", " timestamp ,"),
        "GeneratedTokens,extra,TIMESTAMP,ContextTokens\n"
        "44,x,2023-11-16 18:15:46.68059,374\n"
        "109,,2023-11-16 18:15:50.995169,396\n"
        '55,"a,b",2023-11-16 18:15:51.222467,879\n',
    ],
    ids=[
        "plain", "no newline at the end", "CRLF", "CRLF, no end", "BOM", "blank lines after",
        "blank line before", "quoted time", "blanks and quotes", "T", "Z", "offsets",
        "mixed zones", "whole floats", "header in small letters", "other order, more columns",
    ],
)  # fmt: skip
def test_one_trace_in_many_clothes(write, content):
    trace = read_trace(write(content))
    assert trace.format == "azure"
    assert trace.arrival_s.tolist() == ARRIVALS
    assert trace.prompt_tokens.tolist() == [374, 396, 879]
    assert trace.output_tokens.tolist() == [44, 109, 55]
    assert trace.prompt_tokens.dtype == trace.output_tokens.dtype == np.int64
    assert trace.rows_read == 3
    assert not trace.skipped


def test_packed_files_are_read_whatever_they_are_called(write):
    packed = {
        "gzip": gzip.compress(GOOD.encode()),
        "zstd": pa.compress(GOOD.encode(), "zstd", asbytes=True),
    }
    for name, content in packed.items():
        assert read_trace(write(content, f"{name}.csv")).arrival_s.tolist() == ARRIVALS


def test_parquet_with_true_timestamps(tmp_path):
    stamps = np.array(
        ["2023-11-16T18:15:46.680590", "2023-11-16T18:15:50.995169", "2023-11-16T18:15:51.222467"],
        "datetime64[us]",
    )
    path = tmp_path / "trace.parquet"
    table = pa.table(
        {"TIMESTAMP": stamps, "ContextTokens": [374, 396, 879], "GeneratedTokens": [44, 109, 55]}
    )
    pq.write_table(table, path)
    assert read_trace(path).arrival_s.tolist() == ARRIVALS
    nulls = table.set_column(1, "ContextTokens", pa.array([374, None, 879]))
    pq.write_table(nulls, path)
    assert "row 2: column ContextTokens is missing" in refusal(path)


def test_late_rows_are_sorted_and_said_and_ties_keep_their_order(write):
    path = write(
        HEADER
        + "2024-05-12 00:00:03,1,1\n"
        + "2024-05-12 00:00:01,2,1\n"
        + "2024-05-12 00:00:03,3,1\n"
        + "2024-05-12 00:00:02,4,1\n"
    )
    trace = read_trace(path)
    assert trace.prompt_tokens.tolist() == [2, 4, 1, 3]
    assert trace.arrival_s.tolist() == [0, 1, 2, 2]
    assert "2 of 4 rows came late and were sorted by arrival" in spoken(path)


def test_times_without_a_zone_among_others_are_said(write):
    path = write(HEADER + "2024-05-12 00:00:01Z,1,1\n2024-05-12 00:00:02,2,1\n")
    assert read_trace(path).arrival_s.tolist() == [0, 1]
    assert "1 of 2 times name no zone; taken as UTC" in spoken(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2023-11-16 18:15:47,0,7", "column ContextTokens: '0' is less than 1"),
        ("2023-11-16 18:15:47,12,0", "column GeneratedTokens: '0' is less than 1"),
        ("2023-11-16 18:15:47,-3,9", "column ContextTokens: '-3' is less than 1"),
        ("2023-11-16 18:15:47,abc,9", "column ContextTokens: 'abc' is not a number"),
        ("2023-11-16 18:15:47,,9", "column ContextTokens is missing"),
        ("2023-11-16 18:15:47,NaN,9", "column ContextTokens: 'NaN' is not a number"),
        ("2023-11-16 18:15:47,inf,9", "column ContextTokens: 'inf' is not a number"),
        ("2023-11-16 18:15:47,1_0,9", "column ContextTokens: '1_0' is not a number"),
        ("2023-11-16 18:15:47,٣,9", "is not a number"),
        ("2023-11-16 18:15:47,1.5,9", "column ContextTokens: '1.5' is not a whole number"),
        ("2023-11-16 18:15:47,1e30,9", "is more than 1,000,000,000"),
        ("2023-11-16 18:15:47,99999999999999999999,9", "is more than 1,000,000,000"),
        ("not-a-date,10,9", "column TIMESTAMP: 'not-a-date' is not a date and time such as"),
        ("2023-02-30 00:00:00,10,9", "is not a date and time"),
        ("2023-02-20 24:00:00,10,9", "is not a date and time"),
        ("2023-02-20 00:00:00+99:00,10,9", "is not a date and time"),
        ("1969-02-20 00:00:00,10,9", "is not a date and time"),
        (",10,9", "column TIMESTAMP is missing"),
        ("2023-11-16 18:15:47,10", "the row has fewer cells than the header"),
        ("2023-11-16 18:15:47,10,9,extra", "the row has more cells than the header"),
    ],
)
def test_a_bad_row_is_named_and_can_be_left_out(write, row, said):
    path = write(GOOD + row + "\n")
    sentence = refusal(path)
    assert f"{path}, line 5: " in sentence
    assert said in sentence
    assert sentence.endswith("or leave such rows out: on_bad_row: skip (--on-bad-row skip)")
    trace = read_trace(path, on_bad_row="skip")
    assert trace.arrival_s.tolist() == ARRIVALS
    assert trace.rows_read == 4
    assert sum(s.count for s in trace.skipped.values()) == 1
    assert "1 of 4 rows left out: 1 where" in spoken(path, on_bad_row="skip")


def test_a_row_cut_off_by_the_end_of_the_file(write):
    sentence = refusal(write(GOOD + "2023-11-16 18:15:52.0,8"))
    assert "line 5: the row has fewer cells than the header (the file ends inside this line)" in (
        sentence
    )


def test_reasons_are_counted_apart_most_frequent_first(write):
    path = write(GOOD + "x,1,1\n2023-11-16 18:15:47,0,1\n2023-11-16 18:15:48,0,1\n")
    assert (
        "3 of 6 rows left out: 2 where ContextTokens is less than 1 (first at line 6: '0'); "
        "1 where TIMESTAMP is not a date"
    ) in spoken(path, on_bad_row="skip")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \r\n\n", "is empty"),
        (HEADER.encode(), "no rows; nothing to simulate"),
        (HEADER.encode() + b"x,1,1\n", "line 2: column TIMESTAMP"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is a picture"),
        (b"PK\x03\x04abc", "is a zip archive or a spreadsheet"),
        (b"\x80\x04\x95\0\0\0\0", "is a binary file"),
        (b"\xff\xfeT\0I\0", "is UTF-16 text: save it as UTF-8"),
        (b"<!DOCTYPE html><html>", "is an HTML or XML page"),
        (b"PAR1 no parquet", "starts like Parquet but cannot be read"),
        (b"\x1f\x8b nothing packed", "cannot be unpacked"),
        (gzip.compress(GOOD.encode() * 50)[:-20], "damaged or cut short"),
        (b"[1, 2", "is not valid JSON"),
        (b'{\n  "a": 1\n}\n', "no line of it holds an object"),
        (b"t_s,rate_rps\n0,1.5\n600,2\n", "holds rates and no requests; give it as workload.arr"),
        (b"[[100, 0.5], [200, 1.0]]", "workload.lengths: {distribution: cdf, file: ...}"),
        (GOOD.partition("\n")[2].encode(), "no known trace format has its columns"),
        (GOOD.replace(",", ";").encode(), "no known trace format has its columns"),
        (b"TIMESTAMP,ContextTokens,ContextTokens\n", "two columns are called 'ContextTokens'"),
        (GOOD.encode("utf-8") + b"2023-11-16 18:15:5\xe9,1,1\n", "line 5: column TIMESTAMP"),
        (HEADER.encode() + b'"2023-11-16 18:15:47,1,1\n' * 3, "look for a quote that is never"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused_in_one_sentence(write, content, said):
    assert said in refusal(write(content))


def test_a_wrong_path_says_what_is_wrong_with_it(tmp_path, write):
    path = write(GOOD)
    assert "did you mean 'trace.csv'?" in refusal(path.with_name("traces.csv"))
    assert "is a folder" in refusal(tmp_path)


def test_a_format_by_name_is_checked_against_the_file(write):
    path = write(GOOD)
    assert read_trace(path, "azure").format == "azure"
    assert "has no column arrival_s" in refusal(path, format="csv")
    with pytest.raises(InputError, match=r"'azur' is not known; did you mean azure\?"):
        read_trace(path, "azur")


def test_images_of_multimodal_traces_are_said_to_be_left_out(write):
    path = write(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15T00:00:00.123Z,2,1500,10\n"
    )
    assert "images of a request (NumImages) are not simulated" in spoken(path)


def test_the_reason_for_the_format_is_given(write):
    assert (
        "read as azure (Azure LLM inference trace, dates and times), since it has TIMESTAMP, "
        "ContextTokens, GeneratedTokens"
    ) in spoken(write(GOOD))
