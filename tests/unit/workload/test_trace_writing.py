"""Traces written in every format are read back as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.workload.traces import FORMATS, read_trace
from simulator.workload.traces.write import write_trace


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "source.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens,max_tokens,priority,id\n"
        "7.125,600,5,,0,a\n7.3754321,10,70,90,-2,b\n4000.0,1025,1,,0,c\n"
    )
    return read_trace(path)


WRITTEN = [name for name, layout in FORMATS.items() if layout.written]


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_round_trip(trace, tmp_path, name, suffix):
    path = tmp_path / f"out{suffix}"
    write_trace(trace, path, FORMATS[name])
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (suffix == ".gz")
    again = read_trace(path, name)
    assert again.arrival_s == pytest.approx(trace.arrival_s, abs=1e-9)
    assert again.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert again.output_tokens.tolist() == trace.output_tokens.tolist()
    for role in set(again.extra) & set(trace.extra):
        assert again.extra[role].tolist() == trace.extra[role].tolist()


def test_by_hand(trace, tmp_path):
    path = tmp_path / "out"
    write_trace(trace, path, FORMATS["azure"])
    assert path.read_text() == (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-01-01 00:00:00.0000000,600,5\n"
        "2024-01-01 00:00:00.2504321,10,70\n"
        "2024-01-01 01:06:32.8750000,1025,1\n"
    )
    write_trace(trace, path, FORMATS["mooncake"])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]},
        {
            "timestamp": 250.4321,
            "input_length": 10,
            "output_length": 70,
            "hash_ids": [2],
            "priority": 2,
        },
        {"timestamp": 3992875, "input_length": 1025, "output_length": 1, "hash_ids": [3, 4, 5]},
    ]
    write_trace(trace, path, FORMATS["csv"])
    assert path.read_text() == (
        "arrival_s,prompt_tokens,output_tokens,max_tokens,priority,id\n"
        "0,600,5,,,a\n0.2504321,10,70,90,-2,b\n3992.875,1025,1,,,c\n"
    )


def test_a_real_trace_through_all_formats(shared, tmp_path):
    recorded = read_trace(shared / "traces/azure2023/AzureLLMInferenceTrace_conv.csv")
    trace = recorded.window(limit=3000)
    path = tmp_path / "out"
    again = trace
    for name in WRITTEN:
        write_trace(again, path, FORMATS[name])
        again = read_trace(path, name)
    assert np.abs(again.arrival_s - trace.arrival_s).max() < 1e-7
    assert again.prompt_tokens.tolist() == trace.prompt_tokens.tolist()
    assert again.output_tokens.tolist() == trace.output_tokens.tolist()


def test_a_place_that_cannot_be_written(trace, tmp_path):
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_trace(trace, tmp_path, FORMATS["csv"])
