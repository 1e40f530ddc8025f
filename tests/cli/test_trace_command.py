"""`servecast trace`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from simulator.cli.trace import trace
from simulator.errors import InputError

ROWS = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,0,109\n"
    "2023-11-16 18:15:51.6805900,879,55\n"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(ROWS)
    return str(path)


def test_inspect_prints_figures_and_what_was_left_out(file):
    result = CliRunner().invoke(trace, ["inspect", file])
    assert result.exit_code == 0
    assert "2 (3 rows)" in result.output
    assert "0.2 requests/s" in result.output
    assert "1 of 3 rows left out: 1 where ContextTokens is less than 1" in result.output


def test_inspect_json(file):
    result = CliRunner().invoke(trace, ["inspect", file, "--json"])
    found = json.loads(result.output)
    assert found["requests"] == 2
    assert found["rate"] == 0.2
    assert found["skipped"] == {"ContextTokens is less than 1": 1}


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_inspect_draws_a_page(file, tmp_path, suffix):
    page = tmp_path / f"page.{suffix}"
    result = CliRunner().invoke(trace, ["inspect", file, "--plots", str(page)])
    assert result.exit_code == 0
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix]
    assert page.read_bytes().startswith(start)


def test_a_page_says_what_it_shows(file, tmp_path):
    from simulator.workload.traces import read_trace
    from simulator.workload.traces.figure import plot_trace

    figure = plot_trace(read_trace(file, on_bad_row="skip"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "Rate", "Gaps between arrivals", "Index of dispersion", "Prompts", "Outputs",
        "Prompts and outputs",
    ]  # fmt: skip
    # Two requests 5 s apart: one gap, no window for the index, 374 and 879 tokens.
    assert figure.axes[3].get_title(loc="right") == "median 626, longest 879"
    wrong = CliRunner().invoke(trace, ["inspect", file, "--plots", str(tmp_path / "page.doc")])
    assert "plots are written as .svg, .png, .pdf" in str(wrong.exception)


@pytest.mark.parametrize(
    ("tool", "row", "said"),
    [
        ("vllm", {"timestamp": 5, "hash_ids": 55}, "--timed-trace-chunk-hash-size 16"),
        ("guidellm", {"timestamp": 5, "hash_ids": 55}, "kind=trace_synthetic"),
        ("aiperf", {"timestamp": 5000, "hash_ids": 2}, "--custom-dataset-type mooncake_trace"),
    ],
)
def test_convert_for_a_benchmark(file, tmp_path, tool, row, said):
    out = tmp_path / "out.jsonl"
    command = ["convert", file, str(out), "--to", tool, "--on-bad-row", "skip"]
    result = CliRunner().invoke(trace, command)
    assert result.exit_code == 0
    assert said in result.output
    last = json.loads(out.read_text().splitlines()[-1])
    assert last["timestamp"] == row["timestamp"]
    assert len(last["hash_ids"]) == row["hash_ids"]  # 879 tokens in blocks of 16 or 512
    assert (last["input_length"], last["output_length"]) == (879, 55)


def test_tables_of_any_columns(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ts,in,out\n1000,5,6\n3500,7,8\n")
    mapping = ["--column", "arrival_s=ts", "--column", "prompt_tokens=in"]
    mapping += ["--column", "output_tokens=out", "--time-unit", "ms"]
    result = CliRunner().invoke(trace, ["inspect", str(path), "--json", *mapping])
    assert json.loads(result.output)["span_s"] == 2.5
    out = tmp_path / "out.csv"
    CliRunner().invoke(trace, ["convert", str(path), str(out), "--to", "vidur", *mapping])
    assert out.read_text().splitlines()[1:] == ["0,5,6", "2.5,7,8"]
    wrong = CliRunner().invoke(trace, ["inspect", str(path), "--column", "ts"])
    assert "write OURS=NAME" in str(wrong.exception)


def test_inspect_can_be_strict(file):
    result = CliRunner().invoke(trace, ["inspect", file, "--on-bad-row", "error"])
    assert isinstance(result.exception, InputError)
    assert "line 3" in str(result.exception)


def test_convert_writes_says_and_refuses(file, tmp_path):
    out = str(tmp_path / "out.jsonl")
    command = ["convert", file, out, "--to", "mooncake", "--on-bad-row", "skip"]
    result = CliRunner().invoke(trace, command)
    assert result.exit_code == 0
    assert "1 of 3 rows left out" in result.output
    assert "2 requests written as mooncake" in result.output
    assert json.loads(CliRunner().invoke(trace, ["inspect", out, "--json"]).output)["span_s"] == 5.0
    same = CliRunner().invoke(trace, ["convert", file, file, "--to", "mooncake"])
    assert "is the trace itself" in str(same.exception)
    unknown = CliRunner().invoke(trace, ["convert", file, out, "--to", "moncake"])
    assert "did you mean mooncake?" in str(unknown.exception)
