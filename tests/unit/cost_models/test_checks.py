"""What a calibration says of itself: regimes, heads left out, rows beyond the datasheet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cost_models import catalog

pytest.importorskip("scipy")

from cost_models import checks, fit, fitted
from cost_models.calibration import Calibration, Decode, DecodeHeads, Gemm
from cost_models.importers import profile
from cost_models.importers.profile import Profile

H100 = catalog.gpu("h100_sxm")
# Products as fast as 1e12 bytes/s, with nothing else: times are easy by hand.
ROOFLINE = {
    "launch_s": 0.0,
    "weight_bytes_per_s": 1e12,
    "activation_bytes_per_s": 1e30,
    "flops_per_s": 1e30,
    "overlap": 1.0,
}
DECODE = {"launch_s": 1e-6, "kv_bytes_per_s": 1e12, "per_seq_head_s": 1e-12}


def made() -> tuple[Profile, Calibration]:
    gemm = pd.DataFrame({"m": [1, 2048], "n": 1000, "k": 1000, "seconds": [2e-6, 4e-6]})
    none = pd.DataFrame(columns=[*profile.PREFILL_KEYS, "seconds"])
    measured = Profile(
        gpu="h100_sxm", engine="vllm", dtype="bf16", gemm=gemm,
        decode=pd.DataFrame(columns=[*profile.DECODE_KEYS, "seconds"]), prefill=none,
        all_reduce=none, versions={}, source="", licence="",
    )  # fmt: skip
    heads = [
        DecodeHeads(num_heads=32, num_kv_heads=8, permille=[[1000, 1000]]),
        DecodeHeads(num_heads=16, num_kv_heads=4, permille=[[1100, 1250]]),
    ]
    decode = Decode(head_dim=128, roofline=DECODE, seqs=[1], context=[16, 32], heads=heads)
    return measured, Calibration(
        schema_version=1, gpu="h100_sxm", engine="vllm", dtype="bf16", versions={}, source="",
        licence="", gemm=Gemm(roofline=ROOFLINE), decode=[decode], prefill=[], all_reduce=[],
        report={},
    )  # fmt: skip


def test_errors_by_regime_by_hand() -> None:
    found = {regime.name: regime for regime in fitted.regimes(*made())}
    # 2 MB at 1e12 bytes/s take 2 µs, whatever the tokens.
    np.testing.assert_allclose(found["decode (m to 64)"].fitted_s, 2e-6)
    report = checks.of(*made(), H100)["GEMM, fit by regime"]
    assert report["decode (m to 64)"]["bias_pct"] == 0
    assert report["prefill"]["bias_pct"] == -50


def test_heads_left_out_by_hand() -> None:
    # 1/1.1 and 1/1.25 for the one, 1.1 and 1.25 for the other: errors 9.1, 20, 10 and 25 %.
    found = checks.of(*made(), H100)["decode attention, left-out heads"]["nearest others"]
    assert found["rows"] == 4
    assert found["mape_pct"] == pytest.approx((100 / 11 + 20 + 10 + 25) / 4, abs=0.01)


def test_rows_faster_than_memory_are_counted() -> None:
    measured, calibration = made()
    key = "rows faster than the datasheet's bandwidth"
    assert key not in checks.of(measured, calibration, H100)
    measured.gemm = measured.gemm.assign(seconds=[2e-7, 4e-6])  # 10 TB/s
    assert checks.of(measured, calibration, H100)[key] == {"GEMM": 1}


def test_a_parameter_that_the_rows_say_nothing_of_is_told() -> None:
    x = np.linspace(1, 2, 50)
    noise = 1 + 0.01 * np.sin(37 * x)
    bounds = {"slope": (0.1, 1.0, 100.0), "nothing": (1e-9, 1e-6, 1e-3)}
    found = fit.fit(lambda p: p["slope"] * x + p["nothing"] * 1e-3, 3 * x * noise, bounds)
    assert found.parameters["slope"] == pytest.approx(3, rel=0.01)
    assert found.undecided == ["nothing"]


def test_the_picture_has_a_panel_for_each_operation() -> None:
    from simulator.report.plots.calibration import plot_calibration

    figure = plot_calibration(*made())
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "GEMM"
    told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert told == ["decode (m to 64): 0%, bias +0%", "prefill: 50%, bias -50%"]
