"""The rooflines by hand, and the sizes that CUDA graphs are captured at."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import cuda_graphs, forms

GEMM = {
    "launch_s": 1e-6,
    "weight_bytes_per_s": 1e12,
    "activation_bytes_per_s": 2e12,
    "flops_per_s": 1e14,
    "overlap": 2.0,
}


def test_gemm_is_the_2_norm_of_memory_and_compute_by_hand() -> None:
    # Weights 1000·2000·2 B at 1 TB/s: 4 µs; activations 64·2·3000 B at 2 TB/s: 0.192 µs;
    # products 2·64·1000·2000 at 100 TFLOP/s: 2.56 µs.
    expected = 1e-6 + np.hypot(4.192e-6, 2.56e-6)
    assert forms.gemm_s(GEMM, 64, 1000, 2000, 2) == pytest.approx(expected, rel=1e-12)


def test_products_are_computed_in_tiles_of_64_tokens() -> None:
    wide = {**GEMM, "activation_bytes_per_s": 1e30}
    assert forms.gemm_s(wide, 1, 1000, 2000, 2) == forms.gemm_s(wide, 64, 1000, 2000, 2)
    assert forms.gemm_s(wide, 65, 1000, 2000, 2) == forms.gemm_s(wide, 128, 1000, 2000, 2)


def test_a_sharp_overlap_is_the_longer_of_the_two() -> None:
    sharp = {**GEMM, "overlap": 400.0, "launch_s": 0.0}
    assert forms.gemm_s(sharp, 64, 1000, 2000, 2) == pytest.approx(4.192e-6, rel=1e-6)
    no_overlap = {**GEMM, "overlap": 1.0, "launch_s": 0.0}
    assert forms.gemm_s(no_overlap, 64, 1000, 2000, 2) == pytest.approx(6.752e-6, rel=1e-12)


def test_decode_attention_by_hand() -> None:
    params = {"launch_s": 1e-5, "kv_bytes_per_s": 2e12, "per_seq_head_s": 1e-8}
    # 16 sequences · 1000 tokens · 2 · 8 heads · 128 · 2 B = 65.536 MB at 2 TB/s.
    expected = 1e-5 + 65.536e6 / 2e12 + 16 * 8 * 1e-8
    assert forms.decode_attention_s(params, 16, 1000, 8, 128, 2) == pytest.approx(expected)


def test_prefill_attention_by_hand() -> None:
    params = {
        "launch_s": 1e-5,
        "flops_per_s": 5e14,
        "per_token_head_s": 1e-10,
        "per_seq_head_s": 1e-8,
        "per_kv_s": 1e-8,
    }
    # One chunk of 2048, 32 heads of 128: area 2048²/2.
    area = 2048**2 / 2
    products = 4 * 32 * 128 * area / 5e14 + 2048 * 32 * 1e-10 + 32 * 1e-8
    found = forms.prefill_attention_s(params, 1, 2048, area, 2048, 32, 128)
    assert found == pytest.approx(1e-5 + products)
    # With one head the walk along 2048 keys, 20.48 µs, is the longer.
    found = forms.prefill_attention_s(params, 1, 2048, area, 2048, 1, 128)
    assert found == pytest.approx(1e-5 + 2048 * 1e-8)


def test_captured_sizes_of_vllm() -> None:
    sizes = list(cuda_graphs.captured_sizes(256, "9.0"))
    assert sizes[:6] == [1, 2, 4, 8, 16, 24]
    assert sizes[-3:] == [480, 496, 512]
    assert 248 in sizes
    assert 264 not in sizes
    assert cuda_graphs.captured_sizes(64, "9.0")[-1] == 128
    assert cuda_graphs.captured_sizes(1024, "10.0")[-1] == 1024


def test_a_decode_step_runs_at_the_next_captured_size() -> None:
    padded = cuda_graphs.padded_sizes(cuda_graphs.captured_sizes(256, "9.0"))
    asked = [0, 1, 2, 3, 4, 5, 8, 9, 25, 249, 257, 512]
    assert list(padded[asked]) == [0, 1, 2, 4, 4, 8, 8, 16, 32, 256, 272, 512]
