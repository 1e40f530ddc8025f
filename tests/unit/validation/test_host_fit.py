"""The engine's own time is found again from runs that were simulated with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.validation.measured import Measured
from simulator.validation.score import predict

pytest.importorskip("scipy")

from simulator.validation.host_fit import _left_out, fit_host


def run(version: str, seats: int, results: dict[str, float]) -> Measured:
    return Measured(
        where=f"{seats} seats",
        engine="vllm",
        engine_version=version,
        gpu="h100_sxm",
        model="qwen3-8b",
        weight_dtype="bf16",
        kv_dtype="bf16",
        tp=1,
        load="closed_loop",
        load_value=seats,
        prompt_tokens=(200, 300),
        output_tokens=(40, 60),
        num_requests=3 * seats,
        results=results,
    )


def simulated(version: str, seats: int, host: dict[str, object], tmp_path: Path) -> Measured:
    """A run as an engine with this host time would have measured it."""
    file = tmp_path / "true.json"
    file.write_text(json.dumps(host))
    blank = run(version, seats, {"tpot_ms_mean": 1.0, "ttft_ms_mean": 1.0})
    return run(version, seats, predict(blank, file).predicted)


HOST = {
    "per_step_s": 2e-3,
    "per_seq_s": 8e-5,
    "gap_s": 1.5e-3,
    "per_request_s": 3e-2,
    "per_prompt_token_s": 5e-6,  # the release's: runs of one length cannot tell it apart
    "source": "",
}


def test_a_synchronous_engines_time_is_found_again(tmp_path: Path) -> None:
    found = fit_host([simulated("0.12", seats, HOST, tmp_path) for seats in (2, 8, 32)])
    assert found.fitted == ("per_step_s", "per_seq_s", "per_request_s")
    assert found.host.per_step_s == pytest.approx(2e-3, rel=0.05)
    assert found.host.per_seq_s == pytest.approx(8e-5, rel=0.05)
    assert found.host.per_request_s == pytest.approx(3e-2, rel=0.05)
    assert max(abs(told["after_pct"]) for told in found.runs) < 3
    assert json.loads(found.dump())["per_step_s"] == found.host.per_step_s


def test_of_an_asynchronous_engine_the_gap_shows(tmp_path: Path) -> None:
    found = fit_host([simulated("0.23", 4, HOST, tmp_path)])
    assert found.fitted == ("gap_s", "per_request_s")
    assert found.host.gap_s == pytest.approx(1.5e-3, rel=0.05)
    assert [told["left_out_pct"] for told in found.runs] == [None, None]


def test_releases_are_not_mixed() -> None:
    runs = [run(version, 4, {"tpot_ms_mean": 8.0}) for version in ("0.12", "0.23")]
    with pytest.raises(InputError, match=r"several releases \(vllm 0\.12, vllm 0\.23\)"):
        fit_host(runs)
    with pytest.raises(InputError, match="4 seats: has no mean TPOT"):
        fit_host([run("0.12", 4, {"ttft_ms_mean": 8.0})])


def test_a_residual_left_out_by_hand() -> None:
    # The mean of 1, 2 and 6 is 3; without the last it is 1.5, which is 4.5 short of 6.
    ones, values = np.ones((3, 1)), np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(_left_out(values - 3, ones)[2], 4.5)
