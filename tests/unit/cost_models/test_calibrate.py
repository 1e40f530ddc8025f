"""Calibration: known parameters are found again, bad rows are counted, bytes repeat."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cost_models import catalog, forms
from cost_models.errors import InputError

pytest.importorskip("scipy")

from cost_models import fit
from cost_models.calibrate import calibrate
from cost_models.calibration import dump, read, shipped
from cost_models.importers import profile
from cost_models.importers.profile import Profile

H100 = catalog.gpu("h100_sxm")
GEMM = {
    "launch_s": 4e-6,
    "weight_bytes_per_s": 2.7e12,
    "activation_bytes_per_s": 1.5e12,
    "flops_per_s": 7e14,
    "overlap": 4.0,
}
DECODE = {"launch_s": 1.2e-5, "kv_bytes_per_s": 2.5e12, "per_seq_head_s": 3e-8}


def gemm_table() -> pd.DataFrame:
    sizes = pd.MultiIndex.from_product(
        [[1, 8, 64, 256, 1024, 8192], [1024, 4096, 16384], [1024, 4096, 16384]],
        names=profile.GEMM_KEYS,
    ).to_frame(index=False)
    columns = (fit.column(sizes, name) for name in profile.GEMM_KEYS)
    m, n, k = columns
    return sizes.assign(seconds=forms.gemm_s(GEMM, m, n, k, 2))


def decode_table() -> pd.DataFrame:
    sizes = pd.MultiIndex.from_product(
        [[32], [8], [128], [1, 16, 64, 256], [128, 1024, 8192]], names=profile.DECODE_KEYS
    ).to_frame(index=False)
    return sizes.assign(
        seconds=forms.decode_attention_s(DECODE, **fit.decode_inputs(sizes, "bf16"))
    )


def prefill_table() -> pd.DataFrame:
    sizes = pd.MultiIndex.from_product(
        [[32], [8], [128], [1, 4, 8], [64, 512, 2048, 8192]], names=profile.PREFILL_KEYS
    ).to_frame(index=False)
    params = {
        "launch_s": 1e-5,
        "flops_per_s": 6e14,
        "per_token_head_s": 3e-10,
        "per_seq_head_s": 1e-8,
        "per_kv_s": 1e-9,
    }
    return sizes.assign(seconds=forms.prefill_attention_s(params, **fit.prefill_inputs(sizes)))


def small_profile() -> Profile:
    return Profile(
        gpu="h100_sxm",
        engine="vllm",
        dtype="bf16",
        gemm=gemm_table(),
        decode=decode_table(),
        prefill=prefill_table(),
        all_reduce=pd.DataFrame({"tp": [2, 2], "elements": [1024, 4096], "seconds": [5e-6, 6e-6]}),
        versions={"gemm": "1.0"},
        source="synthetic",
        licence="none",
        rejected={"gemm: repeat of a case": 3},
    )


def test_known_parameters_are_found_again() -> None:
    fitted = calibrate(small_profile(), H100)
    assert fitted.gemm.roofline == pytest.approx(GEMM, rel=2e-3)
    assert fitted.decode[0].roofline == pytest.approx(DECODE, rel=2e-3)
    assert fitted.prefill[0].fit["flops_per_s"] == pytest.approx(6e14, rel=1e-2)
    assert fitted.report["gemm"]["roofline"]["mape_pct"] < 0.1
    assert fitted.report["rejected_rows"] == {"gemm: repeat of a case": 3}


def test_a_small_profile_gets_the_roofline_alone() -> None:
    fitted = calibrate(small_profile(), H100)
    assert fitted.gemm.permille == []
    assert fitted.decode[0].heads == []


def test_a_rate_above_the_datasheet_ends_at_its_bound_and_is_reported() -> None:
    quick = small_profile()
    quick.gemm = quick.gemm.assign(seconds=quick.gemm["seconds"] / 2)
    fitted = calibrate(quick, H100)
    assert fitted.gemm.roofline["flops_per_s"] <= H100.peak_flops() * (1 + 1e-4)
    assert "flops_per_s" in fitted.report["gemm"]["at_bound"]


def test_what_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    fitted = calibrate(small_profile(), H100)
    path = tmp_path / "mine.json"
    path.write_text(dump(fitted))
    assert read(path) == fitted
    assert dump(read(path)) == dump(fitted)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text("{")
    with pytest.raises(InputError, match=r"mine\.json, line 1"):
        read(path)
    path.write_text('{"schema_version": 2}')
    with pytest.raises(InputError, match="schema_version"):
        read(path)


def test_cleaning_keeps_one_positive_time_per_case_and_counts_the_rest() -> None:
    raw = pd.DataFrame({"m": [2, 1, 1, 1, 3], "n": 8, "k": 8, "seconds": [5.0, 1.0, 3.0, 2.0, 0.0]})
    rejected: dict[str, int] = {}
    cleaned = profile.clean(raw, profile.GEMM_KEYS, "gemm", rejected)
    assert list(cleaned["seconds"]) == [2.0, 5.0]
    assert rejected == {"gemm: time not positive": 1, "gemm: repeat of a case": 2}


def test_error_summary_by_hand() -> None:
    found = fit.error_summary(np.array([1.1, 0.9, 1.0]), np.ones(3))
    assert found == {"rows": 3, "mape_pct": 6.67, "p95_pct": 10.0, "bias_pct": 0.0}


@pytest.mark.parametrize(("gpu", "engine", "dtype"), [("a100_sxm", "vllm", "bf16")])
def test_the_shipped_file_is_what_the_command_writes(gpu: str, engine: str, dtype: str) -> None:
    pytest.importorskip("aiconfigurator_core")
    from cost_models.calibration import ROOT, file_name
    from cost_models.importers import aiconfigurator

    path = ROOT / file_name(gpu, engine, dtype)
    measured = aiconfigurator.read(aiconfigurator.SOURCE, catalog.gpu(gpu), engine, dtype)
    if measured.source != read(path).source:
        pytest.skip(f"another release of the tables: {measured.source}")
    assert (gpu, engine, dtype) in shipped()
    assert dump(calibrate(measured, catalog.gpu(gpu))) == path.read_text()


@pytest.mark.parametrize(
    "gpu", [gpu for gpu, engine, dtype in shipped() if (engine, dtype) == ("vllm", "fp8_block")]
)
def test_half_the_bytes_take_no_longer(gpu: str) -> None:
    """One token's product reads the weights and little else, so fp8 is not slower than bf16."""
    from cost_models import StepCost

    bf16, fp8 = (
        StepCost.load({"name": "llama-3.1-70b", "weight_dtype": dtype}, gpu, tp=4).step([128]).gpu_s
        for dtype in ("bf16", "fp8_block")
    )
    assert fp8 < bf16


def test_sources_without_tables_are_refused(tmp_path: Path) -> None:
    from cost_models.importers import aiconfigurator

    with pytest.raises(InputError, match="holds no kernel tables"):
        aiconfigurator.read(str(tmp_path), H100, "vllm")
    pytest.importorskip("aiconfigurator_core")
    unknown = H100.model_copy(update={"name": "h42"})
    with pytest.raises(InputError, match="GPUs with tables: .*h100_sxm"):
        aiconfigurator.read(aiconfigurator.SOURCE, unknown, "vllm")
    with pytest.raises(InputError, match=r"vllm 9\.9"):
        aiconfigurator.read(aiconfigurator.SOURCE, H100, "vllm", version="9.9")
    with pytest.raises(InputError, match="no fp8 GEMM rows"):
        aiconfigurator.read(aiconfigurator.SOURCE, catalog.gpu("a100_sxm"), "vllm", "fp8")
