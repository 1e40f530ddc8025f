"""KV blocks that fit: a logged count, the sum itself, and models that do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cost_models import catalog
from cost_models.errors import InputError
from cost_models.memory import kv_budget
from cost_models.parallelism import Parallelism

H100 = catalog.gpu("h100_sxm")


# GPU, model, vLLM, split, max_num_batched_tokens, max_num_seqs, blocks of 16 that each engine
# logged, and how far off the sum may be.  The first is of a study of residency times, the others
# of the records of LLMServingSim's benchmarks.  Of 24 GB, 0.67 GiB that nobody told us about are
# an eighth of what is left for the cache.
SHARED = Parallelism(1, dp=2, ep=True)
LOGGED = [
    ("h100_sxm", "qwen3-14b", "0.23", Parallelism(), 8192, 256, 18038, 0.03),
    ("rtx_pro_6000", "llama-3.1-8b", "0.28", Parallelism(), 2048, 128, 35913, 0.03),
    ("rtx_pro_6000", "qwen3-32b", "0.28", Parallelism(2), 2048, 128, 28884, 0.03),
    ("rtx_pro_6000", "qwen3-30b-a3b", "0.28", SHARED, 2048, 128, 37819, 0.03),
    ("rtx_4090", "llama-3.1-8b", "0.19", Parallelism(), 2048, 256, 2588, 0.14),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "model", "version", "split", "tokens", "seqs", "blocks", "within"), LOGGED
)
def test_blocks_are_those_that_vllm_logged(
    gpu: str,
    model: str,
    version: str,
    split: Parallelism,
    tokens: int,
    seqs: int,
    blocks: int,
    within: float,
) -> None:
    device = catalog.gpu(gpu)
    budget = kv_budget(
        catalog.model(model),
        device,
        split=split,
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        defaults=catalog.engine_defaults("vllm", version, device),
    )
    assert budget.num_gpu_blocks == pytest.approx(blocks, rel=within)


def test_every_count_beside_the_measured_runs_is_one_of_these(shared: Path) -> None:
    known = {blocks for *_, blocks, _ in LOGGED}
    told: set[int] = set()
    for path in sorted((shared / "measured").glob("*.csv")):
        text = path.read_text(encoding="utf-8")
        told |= {int(count) for count in re.findall(r"kv_blocks (\d+)x16", text)}
        told |= {int(count) // 16 for count in re.findall(r"kv tokens (\d+)", text)}
    assert {18038, 2588} <= told <= known


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


def test_slots_for_adapters_that_leave_no_room_are_named() -> None:
    """A rank-16 adapter of this model is 80 MiB, so that 1,000 of them are 78 GiB."""
    with pytest.raises(InputError, match=r"slots of 1000 LoRA adapters .*smaller scheduler\.lora"):
        kv_budget(catalog.model("llama-3.1-8b"), H100, max_loras=1000, max_lora_rank=16)


def test_the_remedy_of_the_refusal_works() -> None:
    model = catalog.model({"name": "llama-3.1-70b", "weight_dtype": "fp8"})
    assert kv_budget(model, H100).num_gpu_blocks > 0


@pytest.mark.parametrize("share", [0.0, -0.5, 1.2])
def test_a_share_of_memory_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="gpu_memory_utilization"):
        kv_budget(catalog.model("llama-3.1-8b"), H100, gpu_memory_utilization=share)
