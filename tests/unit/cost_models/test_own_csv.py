"""A profile in our own CSV form: fitted rates are those that made it; bad rows are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_models import catalog, forms
from cost_models.calibrate import calibrate
from cost_models.errors import InputError
from cost_models.importers import own_csv

H100 = catalog.gpu("h100_sxm")
GEMM = {
    "launch_s": 4e-6,
    "weight_bytes_per_s": 2.8e12,
    "activation_bytes_per_s": 2e12,
    "flops_per_s": 7e14,
    "overlap": 3.0,
}
HEADER = "op,us,m,n,k,num_heads,num_kv_heads,head_dim,seqs,context,chunk,tp,elements"


def rows() -> list[str]:
    found = []
    for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)):
        for m in (1, 8, 64, 256, 1024, 4096):
            us = 1e6 * float(forms.gemm_s(GEMM, m, n, k, 2))
            found.append(f"gemm,{us:.4f},{m},{n},{k},,,,,,,,")
    for seqs in (1, 4, 16, 64):
        for context in (128, 1024, 4096, 16384):
            us = 10 + seqs * context * 2 * 8 * 128 * 2 / 2.5e12 * 1e6
            found.append(f"decode,{us:.4f},,,,32,8,128,{seqs},{context},,,")
    for chunk in (128, 512, 2048, 8192):
        us = 10 + 4 * 32 * 128 * chunk * chunk / 2 / 4e14 * 1e6
        found.append(f"prefill,{us:.4f},,,,32,8,128,1,,{chunk},,")
    return found


def written(tmp_path: Path, lines: list[str]) -> Path:
    path = tmp_path / "profile.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def test_the_fit_finds_the_rates_that_made_the_rows(tmp_path: Path) -> None:
    measured = own_csv.read(written(tmp_path, rows()), H100, "vllm", "bf16")
    fitted = calibrate(measured, H100)
    assert fitted.source == "profile.csv"
    assert fitted.gemm.roofline["weight_bytes_per_s"] == pytest.approx(2.8e12, rel=0.02)
    assert fitted.gemm.roofline["flops_per_s"] == pytest.approx(7e14, rel=0.02)
    assert fitted.decode[0].roofline["kv_bytes_per_s"] == pytest.approx(2.5e12, rel=0.02)
    assert fitted.prefill[0].fit["flops_per_s"] == pytest.approx(4e14, rel=0.05)
    assert fitted.all_reduce == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("norm,1,,,,,,,,,,,", "op 'norm' is not known"),
        ("gemm,1,0,8,8,,,,,,,,", "line 46: m of gemm is 0.0"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        own_csv.read(written(tmp_path, [*rows(), line]), H100, "vllm", "bf16")


def test_a_profile_without_an_operation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no decode rows"):
        own_csv.read(written(tmp_path, rows()[:24]), H100, "vllm", "bf16")
