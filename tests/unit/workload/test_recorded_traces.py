"""Published traces and hand-made bad files, where the machine has them."""

from __future__ import annotations

import csv
import time
from datetime import datetime

import pytest

from simulator.errors import InputError
from simulator.workload.traces import read_trace


@pytest.mark.parametrize(("service", "rows"), [("conv", 19_366), ("code", 8_819)])
def test_azure_2023_row_by_row(shared, service, rows):
    path = shared / "traces/azure2023" / f"AzureLLMInferenceTrace_{service}.csv"
    seconds = []
    for _ in range(3):
        start = time.process_time()
        trace = read_trace(path)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.3
    with path.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert len(trace) == len(written) == rows
    assert trace.prompt_tokens.tolist() == [int(row["ContextTokens"]) for row in written]
    assert trace.output_tokens.tolist() == [int(row["GeneratedTokens"]) for row in written]
    # datetime holds six digits; the seventh is 0 throughout these files.
    moments = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in written]
    expected = [(moment - moments[0]).total_seconds() for moment in moments]
    assert trace.arrival_s == pytest.approx(expected, abs=1e-9)


def test_azure_bad_rows(shared):
    path = shared / "traces/dirty/azure_bad_rows.csv"
    with pytest.raises(InputError, match="line 3: column ContextTokens: '0' is less than 1"):
        read_trace(path)
    trace = read_trace(path, on_bad_row="skip")
    # Left: 374/44, 200000/1, 1.5e3/9 and 10.0/9; 13 rows and a blank line in the file.
    assert trace.prompt_tokens.tolist() == [374, 200_000, 1500, 10]
    assert trace.output_tokens.tolist() == [44, 1, 9, 9]
    assert trace.arrival_s == pytest.approx([0, 5.31941, 7.31941, 8.31941], abs=1e-9)
    assert {reason: s.count for reason, s in trace.skipped.items()} == {
        "ContextTokens is less than 1": 2,
        "GeneratedTokens is less than 1": 1,
        "ContextTokens is not a number": 2,
        "ContextTokens is missing": 1,
        "TIMESTAMP is not a date and time such as 2023-11-16 18:15:46.6805900 (1970 to 2261)": 1,
        "the row has fewer cells than the header": 1,
        "the row has more cells than the header": 1,
    }


def test_azure_mixed_zones(shared):
    trace = read_trace(shared / "traces/dirty/azure_mixed_2024.csv")
    # By hand: 17:00:01.5-07:00 is 00:00:01.5 UTC; the quoted row names no zone.
    assert trace.arrival_s.tolist() == [0, 0.001163, 1.5, 2.1, 2.269, 3.97996]
    assert trace.prompt_tokens.tolist() == [584, 1452, 862, 617, 770, 4808]
    notes = "\n".join(trace.notes)
    assert "2 of 6 rows came late" in notes
    assert "1 of 6 times name no zone" in notes
