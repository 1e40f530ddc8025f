"""A profile in our own CSV form: fitted rates are those that made it; bad rows are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_models import StepCost, catalog, forms
from cost_models.calibrate import calibrate
from cost_models.calibration import dump
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
        ("softmax,1,,,,,,,,,,,", "op 'softmax' is not known"),
        ("gemm,1,0,8,8,,,,,,,,", "line 46: m of gemm is 0.0; give 1 or more"),
        ("norm,1,8,,,,,,,,,,", "line 46: n of norm is missing; give 1 or more"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, line: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        own_csv.read(written(tmp_path, [*rows(), line]), H100, "vllm", "bf16")


def test_a_profile_without_an_operation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no decode rows"):
        own_csv.read(written(tmp_path, rows()[:24]), H100, "vllm", "bf16")


REAL_HEADER = HEADER + ",longest,past"


def real_rows() -> list[str]:
    """Batches as they come: uneven at 2 TB/s, chunks with a past, and both in one launch."""

    def decode_us(seqs: int, context: int) -> float:
        return 11 + seqs * context * 2 * 8 * 128 * 2 / 2e12 * 1e6

    def chunk_us(chunk: int, past: int) -> float:
        area = chunk * (past + chunk / 2)
        return 10 + 4 * 32 * 128 * area / 4e14 * 1e6 + 8 * past * 1e-3  # 1 ns a token and KV head

    found = [f"{row},," for row in rows()]
    for seqs in (4, 16, 64):
        for context in (1024, 4096):
            us = decode_us(seqs, context)
            found.append(f"decode,{us:.4f},,,,32,8,128,{seqs},{context},,,,{2 * context},")
            us += chunk_us(512, 0) - 4  # one launch instead of two
            found.append(f"mixed,{us:.4f},,,,32,8,128,{seqs},{context},512,,,,0")
    for chunk in (128, 512):
        for past in (1024, 4096, 16384):
            found.append(f"prefill,{chunk_us(chunk, past):.4f},,,,32,8,128,1,,{chunk},,,,{past}")
    for m in (1, 64, 1024, 8192):
        found.append(f"norm,{3 + m * 4096 * 8 / 2e12 * 1e6:.4f},{m},4096" + "," * 11)
        found.append(f"activation,{3 + m * 4096 * 3 / 2e12 * 1e6:.4f},{m},4096" + "," * 11)
    return found


def test_batches_as_they_come_have_fits_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "real.csv"
    head = ["# device: a GPU", "# dtype: bf16", REAL_HEADER]
    path.write_text("\n".join([*head, *real_rows()]) + "\n", encoding="utf-8")
    fitted = calibrate(own_csv.read(path, H100, "vllm", "bf16"), H100)
    assert fitted.source == "real.csv (a GPU)"
    assert fitted.decode[0].roofline["kv_bytes_per_s"] == pytest.approx(2.5e12, rel=0.02)
    found = fitted.effects
    assert found is not None
    assert found.uneven_batches is not None
    assert found.uneven_batches.kv_bytes_per_s == pytest.approx(2e12, rel=0.02)
    assert found.past_of_chunk is not None
    assert found.past_of_chunk.s_per_token_and_kv_head == pytest.approx(1e-9, rel=0.1)
    assert found.shared_launch is not None
    assert found.shared_launch.saved_s_per_layer == pytest.approx(4e-6, rel=0.1)
    assert fitted.elementwise is not None
    assert fitted.elementwise.bytes_per_s == pytest.approx(2e12, rel=0.02)
    assert fitted.elementwise.launch_s == pytest.approx(3e-6, rel=0.02)
    with pytest.raises(InputError, match="holds weights of bf16, not fp8; give --dtype bf16"):
        own_csv.read(path, H100, "vllm", "fp8")


def test_a_fit_of_ones_own_prices_steps(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    profile = own_csv.read(written(tmp_path, rows()), H100, "vllm", "bf16")
    path.write_text(dump(calibrate(profile, H100)), encoding="utf-8")
    price = StepCost.load("llama-3.1-8b", "h100_sxm", coefficients=[path])
    ops = {op.name: op for op in price.step([4096] * 16).ops}
    # Its own file has no uneven batches: those shipped for the GPU hold.
    read_s = 16 * 4096 * 2 * 8 * 128 * 2 / 2.97e12
    expected_s = 32 * (1.0906e-5 + read_s + 16 * 8 * 7.8573e-9)
    assert ops["decode attention"].seconds == pytest.approx(expected_s)
    gemm_s = float(forms.gemm_s(GEMM, 16, 28672, 4096, 2))
    assert ops["gate_up_proj"].seconds == pytest.approx(32 * gemm_s, rel=0.03)
    assert "profile.csv" in price.provenance
    for files, told in (
        ([path, path], "is the second file of bf16"),
        ([tmp_path / "no.json"], "no such file"),
    ):
        with pytest.raises(InputError, match=told):
            StepCost.load("llama-3.1-8b", "h100_sxm", coefficients=files)
    with pytest.raises(InputError, match="is of h100_sxm under vllm, not of h200_sxm"):
        StepCost.load("llama-3.1-8b", "h200_sxm", coefficients=[path])
