"""Latent attention: bytes and FLOPs by hand, measured modules that no fit has seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cost_models import StepCost, calibration, catalog, latent
from cost_models.attention import Attention
from cost_models.effects import Effects
from cost_models.errors import InputError

V3 = catalog.model("deepseek-v3")


def attention(gpu: str, tp: int) -> Attention:
    measured = latent.load(gpu, "vllm", "bf16")
    return Attention(V3, tp, [measured.decode], measured.prefill, Effects())


def test_flops_by_hand() -> None:
    found = attention("h200_sxm", 8)
    # 16 heads of a rank multiply the query by 512 + 64 elements and the weights by 512.
    assert found.decode_flops_per_token == 61 * 16 * 2 * (512 + 64 + 512)
    # Keys of 128 + 64 and values of 128 per head.
    assert found.prefill_flops_per_pair == 61 * 16 * 2 * (192 + 128)


def test_ranks_share_heads_but_not_the_cache() -> None:
    one, eight = (attention("h200_sxm", tp) for tp in (1, 8))
    long_s = [float(a.decode_s([64], [32768])[0, 0]) for a in (one, eight)]
    read_s = 61 * 64 * 32768 * 576 * 2 / 4.8e12  # the datasheet's 4.8 TB/s
    assert all(seconds > read_s for seconds in long_s)
    assert long_s[0] / long_s[1] < 3  # eight times the heads over the same cache


@pytest.mark.parametrize("gpu", ["h100_sxm", "h200_sxm"])
@pytest.mark.parametrize("heads", [8, 16, 32, 128])
def test_modules_in_block_scaled_fp8_are_what_attention_and_products_add_up_to(
    gpu: str, heads: int
) -> None:
    """Rows of the table that neither the attention's fit nor the products' has seen."""
    pytest.importorskip("aiconfigurator_core")
    from cost_models.calibrate_latent import projections_s
    from cost_models.importers import aiconfigurator, aiconfigurator_mla

    modules, _, _ = aiconfigurator_mla.read(aiconfigurator.SOURCE, catalog.gpu(gpu), "vllm")
    rows = modules["bf16", "fp8_block"].decode
    rows = rows[(rows["num_heads"] == heads) & rows["seqs"].le(256)]
    rows = rows[rows["context"].between(128, 32768)]
    tp = V3.num_heads // heads
    seqs, contexts = np.unique(rows["seqs"]), np.unique(rows["context"])
    grid = attention(gpu, tp).decode_s(seqs, contexts) / V3.num_layers
    at = np.searchsorted(seqs, rows["seqs"]), np.searchsorted(contexts, rows["context"])
    gemms = calibration.load(gpu, "vllm", "fp8_block")
    predicted = grid[at] + projections_s(gemms, V3, tp, rows["seqs"].to_numpy(np.float64))
    error = predicted / rows["seconds"].to_numpy() - 1
    assert np.abs(error).mean() < 0.05
    assert abs(error.mean()) < 0.03


def test_what_is_left_of_a_module_must_exceed_the_error_of_its_products() -> None:
    pytest.importorskip("scipy")
    from cost_models.calibrate_latent import _attention_alone, projections_s

    gemms = calibration.load("b200_sxm", "vllm", "bf16")
    tokens = np.array([64.0, 64.0, 64.0])
    alone_s = projections_s(gemms, V3, 8, tokens)
    modules = pd.DataFrame({"num_heads": 16, "seconds": alone_s * (0.9, 1.02, 2.0)})
    rejected: dict[str, int] = {}
    found = _attention_alone(modules, tokens, gemms, V3, "prefill", rejected)
    assert found["seconds"].tolist() == pytest.approx([alone_s[2]])
    assert rejected == {"prefill: within the error of the projections": 2}


def test_a_chunk_rebuilds_keys_and_values_of_its_past() -> None:
    cost = StepCost.load("deepseek-v3", "h200_sxm", tp=8)
    fresh, later = cost.step([], [(1024, 0)]), cost.step([], [(1024, 8192)])
    products_s = 61 * 16 * 2 * (192 + 128) * 1024 * 8192 / 9.89e14
    rebuilt_s = 61 * 2 * 512 * 16 * 256 * 8192 / 1.979e15
    assert later.gpu_s - fresh.gpu_s > products_s + rebuilt_s
    assert sum(op.seconds for op in later.ops) == pytest.approx(later.gpu_s, rel=0.02)
    assert "experts" in cost.provenance


def test_only_effects_that_change_its_price_are_named() -> None:
    # They were measured on heads of 128 in bf16, each with keys and values of its own.
    told = StepCost.load("llama-3.1-8b", "h200_sxm").provenance
    assert "beyond kernels: uneven_batches, shared_launch, past_of_chunk" in told
    packed = StepCost.load({"name": "llama-3.1-8b", "kv_dtype": "fp8"}, "h200_sxm").provenance
    assert "beyond kernels: shared_launch, past_of_chunk" in packed
    latent = StepCost.load("deepseek-v3", "h200_sxm", tp=8).provenance
    assert "beyond kernels" not in latent
    assert "vllm 0.24.0 and sglang 0.5.14 kernels" in latent


def test_a_gpu_without_such_rows_is_refused() -> None:
    with pytest.raises(InputError, match="latent attention for l40s under vllm; there are .*h200"):
        StepCost.load("deepseek-v3", "l40s", tp=8)
