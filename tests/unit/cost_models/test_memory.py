"""KV blocks that fit: a logged count, the sum itself, and models that do not fit."""

from __future__ import annotations

import pytest

from cost_models import catalog
from cost_models.errors import InputError
from cost_models.memory import kv_budget

H100 = catalog.gpu("h100_sxm")


def test_blocks_that_vllm_logged_for_qwen3_14b_on_h100() -> None:
    # vLLM 0.23, TP1, max_num_batched_tokens 8192, max_num_seqs 256: 18,038 blocks of 16.
    budget = kv_budget(
        catalog.model("qwen3-14b"),
        H100,
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        defaults=catalog.engine_defaults("vllm", "0.23", H100),
    )
    assert budget.num_gpu_blocks == pytest.approx(18038, rel=0.03)


def test_the_lines_add_up() -> None:
    budget = kv_budget(catalog.model("llama-3.1-70b"), H100, 4)
    *terms, (label, rest) = budget.lines
    assert label == "KV cache"
    assert rest == sum(amount for _, amount in terms)
    assert budget.num_gpu_blocks == rest // (16 * budget.kv_bytes_per_token)
    assert budget.kv_tokens == 16 * budget.num_gpu_blocks


def test_more_ranks_leave_more_room() -> None:
    model = catalog.model("qwen3-32b")
    blocks = [kv_budget(model, H100, tp).num_gpu_blocks for tp in (1, 2, 4, 8)]
    assert blocks == sorted(blocks)


def test_a_model_that_does_not_fit_says_by_how_much_and_what_would_help() -> None:
    with pytest.raises(InputError) as refusal:
        kv_budget(catalog.model("llama-3.1-70b"), H100)
    told = str(refusal.value)
    assert "does not fit on h100_sxm" in told
    assert "tensor_parallel 2" in told
    assert "weight_dtype fp8" in told
    # 131.4 + 0.4 (libraries, graphs) and activations against 72.9 GiB.
    assert "GiB" in told
    kv_budget(catalog.model("llama-3.1-70b"), H100, 2)


def test_the_remedy_of_the_refusal_works() -> None:
    model = catalog.model({"name": "llama-3.1-70b", "weight_dtype": "fp8"})
    assert kv_budget(model, H100).num_gpu_blocks > 0


@pytest.mark.parametrize("share", [0.0, -0.5, 1.2])
def test_a_share_of_memory_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="gpu_memory_utilization"):
        kv_budget(catalog.model("llama-3.1-8b"), H100, gpu_memory_utilization=share)
