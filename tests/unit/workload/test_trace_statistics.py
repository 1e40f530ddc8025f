"""Measures of traces against hand arithmetic, theory and published figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from simulator.workload.traces import read_trace
from simulator.workload.traces.statistics import describe


@pytest.fixture
def described(tmp_path):
    def _described(arrivals, prompts, outputs):
        path = tmp_path / "trace.csv"
        rows = zip(arrivals, prompts, outputs, strict=True)
        text = "".join(f"{a!r},{p},{o}\n" for a, p, o in rows)
        path.write_text("arrival_s,prompt_tokens,output_tokens\n" + text)
        return describe(read_trace(path))

    return _described


def test_by_hand(described):
    found = described([0.0, 1.0, 4.0, 4.0], [10, 20, 30, 30], [4, 3, 1, 1])
    assert found["requests"] == found["rows_read"] == 4
    assert found["span_s"] == 4.0
    assert found["rate"] == 0.75
    # Gaps 1, 3, 0: mean 4/3, variance 14/9.
    assert found["gap_cv"] == pytest.approx(np.sqrt(14 / 9) / (4 / 3))
    assert found["index_of_dispersion"] == {}
    assert found["prompt_tokens"]["mean"] == 22.5
    assert (found["prompt_tokens"]["min"], found["prompt_tokens"]["max"]) == (10, 30)
    assert found["length_correlation"] == pytest.approx(-1)
    assert found["oddities"] == [
        "4 requests arrive at only 3 different moments, 1 s apart or more: the recording is "
        "coarse, and bursts within a moment are not real",
        "1 rows repeat another one in arrival and both lengths",
    ]


def test_one_request_has_no_rate(described):
    found = described([5.0], [10], [4])
    assert found["rate"] is None
    assert found["gap_cv"] is None
    assert found["length_correlation"] is None


def test_counts_in_windows(described):
    # Two requests in every other second, 0 in between: mean 1, variance 1.
    arrivals = np.repeat(np.arange(0.0, 400.0, 2.0), 2)
    found = described(arrivals.tolist(), range(1, 401), range(1, 401))
    assert found["index_of_dispersion"]["1"] == pytest.approx(1.0, abs=0.01)
    assert found["index_of_dispersion"]["10"] == pytest.approx(0.0, abs=0.01)
    assert "60" not in found["index_of_dispersion"]


def test_rank_correlation_against_scipy(described):
    random = np.random.default_rng(0)
    prompts = random.integers(1, 20, 500)
    outputs = prompts + random.integers(1, 30, 500)
    found = described(np.arange(500.0).tolist(), prompts, outputs)
    expected = stats.spearmanr(prompts, outputs)[0]
    assert found["length_correlation"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("service", "rate", "minutes", "cv", "prompts", "outputs"),
    [
        ("conv", 5.5, 58, 1.09, (1020, 4142), (129, 601)),
        ("code", 2.57, 57, 13.2, (1469, 7436), (13, 252)),
    ],
)
def test_azure_2023_as_described_by_others(shared, service, rate, minutes, cv, prompts, outputs):
    found = describe(
        read_trace(shared / "traces/azure2023" / f"AzureLLMInferenceTrace_{service}.csv")
    )
    assert found["rate"] == pytest.approx(rate, rel=0.01)
    assert found["span_s"] / 60 == pytest.approx(minutes, abs=1)
    assert found["gap_cv"] == pytest.approx(cv, rel=0.01)
    for what, (median, p99) in (("prompt_tokens", prompts), ("output_tokens", outputs)):
        assert found[what]["p50"] == pytest.approx(median, abs=1)
        assert found[what]["p99"] == pytest.approx(p99, abs=1)
