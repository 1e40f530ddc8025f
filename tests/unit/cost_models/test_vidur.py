"""Kernel profiles in Vidur's form: shapes and units by hand, known rates found again."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cost_models import catalog, forms
from cost_models.errors import InputError

pytest.importorskip("scipy")

from cost_models.calibrate import calibrate
from cost_models.importers import vidur

A100 = catalog.gpu("a100_sxm")
GEMM = {
    "launch_s": 5e-6,
    "weight_bytes_per_s": 1.6e12,
    "activation_bytes_per_s": 1.2e12,
    "flops_per_s": 2.5e14,
    "overlap": 4.0,
}


def profile_of_llama_3_8b(folder: Path, workers: int = 2) -> None:
    """An invented profile, in the columns of the real ones."""
    facts = {"n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336}
    mlp = []
    for m in (1, 8, 64, 256, 1024, 4096):
        times = {
            name: 1e3 * float(forms.gemm_s(GEMM, m, n, k, 2))
            for name, n, k in (
                ("attn_pre_proj", 3072, 4096),
                ("attn_post_proj", 4096, 2048),
                ("mlp_up_proj", 14336, 4096),
                ("mlp_down_proj", 4096, 7168),
            )
        }
        medians = {f"time_stats.{name}.median": value for name, value in times.items()}
        mlp.append({**medians, **facts, "use_gated_mlp": True, "num_tokens": m})
    pd.DataFrame(mlp).assign(num_tensor_parallel_workers=workers).to_csv(folder / "mlp.csv")
    attention = [
        {"batch_size": b, "kv_cache_size": c, "prefill_chunk_size": 0, "is_prefill": False}
        | {"time_stats.attn_decode.median": 0.01 + b * (c + 1) * 2048 / 1.5e12 * 1e3}
        for b in (1, 8, 64)
        for c in (127, 1023, 4095)
    ] + [
        {"batch_size": 1, "kv_cache_size": past, "prefill_chunk_size": c, "is_prefill": True}
        | {"time_stats.attn_prefill.median": 0.01 + 4 * 16 * 128 * c * c / 2 / 1.6e14 * 1e3}
        for c in (128, 512, 2048, 8192)
        for past in (0, 1024)
    ]
    heads = {"n_embd": 4096, "n_q_head": 32, "n_kv_head": 8}
    table = pd.DataFrame([{**row, **heads} for row in attention])
    table.assign(num_tensor_parallel_workers=workers).to_csv(folder / "attention.csv")
    reduces = {"rank": [0, 1, 0], "num_workers": 2, "size": [4096, 4096, 4096]}
    nodes = {"devices_per_node": [2, 2, 1], "max_devices_per_node": 8}
    times = {"time_stats.all_reduce.median": [0.02, 0.03, 0.2]}
    pd.DataFrame({**reduces, **nodes, **times}).to_csv(folder / "all_reduce.csv")


def test_shapes_and_units_by_hand(tmp_path: Path) -> None:
    profile_of_llama_3_8b(tmp_path)
    found = vidur.read(tmp_path, A100, "vllm", "bf16")
    # Two workers: 2,048 of queries and 2 x 4 heads of 128; half of the MLP's two halves.
    assert set(found.gemm[["n", "k"]].itertuples(index=False, name=None)) == {
        (3072, 4096), (4096, 2048), (14336, 4096), (4096, 7168),
    }  # fmt: skip
    decode = found.decode.iloc[0]
    assert tuple(decode[:5]) == (16, 4, 128, 1, 128)
    assert decode["seconds"] == pytest.approx(1e-5 + 128 * 2048 / 1.5e12)
    assert list(found.prefill["chunk"]) == [128, 512, 2048, 8192]
    # 4,096 bytes are 2,048 elements; the group over two nodes is another thing.
    assert found.all_reduce.to_dict("list") == {"tp": [2], "elements": [2048], "seconds": [2e-5]}
    assert found.rejected["prefill: cached prefix"] == 4
    assert found.rejected["all_reduce: over several nodes"] == 1


def test_known_rates_are_found_again(tmp_path: Path) -> None:
    profile_of_llama_3_8b(tmp_path)
    fitted = calibrate(vidur.read(tmp_path, A100, "vllm", "bf16"), A100)
    assert fitted.gemm.roofline["weight_bytes_per_s"] == pytest.approx(1.6e12, rel=0.02)
    assert fitted.gemm.roofline["flops_per_s"] == pytest.approx(2.5e14, rel=0.02)
    assert fitted.decode[0].roofline["kv_bytes_per_s"] == pytest.approx(1.5e12, rel=0.02)
    assert fitted.prefill[0].fit["flops_per_s"] == pytest.approx(1.6e14, rel=0.02)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    profile_of_llama_3_8b(tmp_path)
    (tmp_path / "all_reduce.csv").unlink()
    assert vidur.read(tmp_path, A100, "vllm", "bf16").all_reduce.empty
    pd.read_csv(tmp_path / "mlp.csv").drop(columns="n_embd").to_csv(tmp_path / "mlp.csv")
    with pytest.raises(InputError, match=r"mlp\.csv: has no column n_embd"):
        vidur.read(tmp_path, A100, "vllm", "bf16")
    (tmp_path / "attention.csv").unlink()
    assert vidur.is_one(str(tmp_path))
