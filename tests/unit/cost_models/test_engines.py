"""Engines other than vLLM: how they divide the memory, and what is said of them."""

from __future__ import annotations

import pytest

from cost_models import StepCost, calibration, catalog
from cost_models.catalog import engine_defaults
from cost_models.memory import NON_TORCH_BYTES, activation_bytes, kv_budget
from cost_models.parallelism import Parallelism
from simulator import Scenario
from simulator.scenario import resolve

H100 = catalog.gpu("h100_sxm")
MODEL = catalog.model("llama-3.1-8b")


@pytest.mark.parametrize(
    ("gpu", "memory_mib", "chunk", "largest_graph"),
    [("h100_sxm", 81559, 8192, 256), ("b200_sxm", 183359, 16384, 512)],
)
def test_sglang_keeps_free_what_chunks_and_graphs_take(
    gpu: str, memory_mib: int, chunk: int, largest_graph: int
) -> None:
    """512 MiB, 1.5 for each token of a chunk, 128 for one GPU, 2 for each sequence of a graph."""
    defaults = engine_defaults("sglang", None, catalog.gpu(gpu))
    reserved_mib = 512 + 1.5 * chunk + 128 + 2 * largest_graph
    share = (memory_mib - reserved_mib) / memory_mib
    assert defaults.gpu_memory_utilization == pytest.approx(share, abs=0.002)
    assert defaults.max_num_batched_tokens == chunk


def test_sglang_has_weights_and_cache_in_its_share_and_nothing_else() -> None:
    budget = kv_budget(MODEL, H100, defaults=engine_defaults("sglang", None, H100))
    left = int(0.836 * H100.cuda_visible_bytes) - MODEL.weight_bytes() - NON_TORCH_BYTES
    assert budget.num_gpu_blocks == left // MODEL.kv_bytes_per_token()
    assert budget.block_size == 1


def test_tensorrt_llm_takes_a_share_of_what_is_free() -> None:
    defaults = engine_defaults("trtllm", None, H100)
    budget = kv_budget(MODEL, H100, defaults=defaults)
    held = MODEL.weight_bytes() + NON_TORCH_BYTES
    held += activation_bytes(MODEL, Parallelism(), 8192, 2048)
    free = H100.cuda_visible_bytes - held
    assert budget.kv_tokens == pytest.approx(0.9 * free / MODEL.kv_bytes_per_token(), rel=1e-3)
    assert sum(size for _, size in budget.lines[:-1]) == dict(budget.lines)["KV cache"]


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_cells_have_no_effects_that_were_measured_on_vllm(engine: str) -> None:
    told = StepCost.load("llama-3.1-8b", "h100_sxm", engine=engine).provenance
    assert f"h100_sxm, {engine}" in told
    assert "beyond kernels" not in told
    assert "not fitted" in told
    assert "vLLM" not in told


def test_the_same_products_take_about_as_long_under_every_engine() -> None:
    """The kernels are of the same few libraries: a decode of 8B is bound by its weights."""
    steps = [
        StepCost.load("llama-3.1-8b", "h100_sxm", engine=engine).step([128]).gpu_s
        for engine in ("vllm", "sglang", "trtllm")
    ]
    weights_s = MODEL.weight_bytes() / H100.memory_bandwidth_bytes_per_s
    assert min(steps) > weights_s
    assert max(steps) < 1.4 * min(steps)


def test_a_scheduler_that_is_not_the_engines_own_is_told() -> None:
    mapping = {
        "name": "engines",
        "workload": {
            "arrivals": {"process": "poisson", "rate": 1.0},
            "lengths": {"distribution": "fixed", "prompt_tokens": 10, "output_tokens": 2},
        },
        "model": "llama-3.1-8b",
        "cluster": {"gpu": "h100_sxm", "engine": "sglang"},
    }
    scenario = Scenario.from_mapping(mapping)
    assert any("scheduler.policy sglang is its own" in note for note in resolve(scenario).notes)
    own = resolve(scenario.with_overrides(["scheduler.policy=sglang"]))
    assert not any("is its own" in note for note in own.notes)
    assert (own.block_size, own.max_num_batched_tokens) == (1, 8192)
    other = resolve(scenario.with_overrides(["cluster.engine=trtllm"]))
    assert any("its own is not simulated" in note for note in other.notes)
    assert other.block_size == 32


def test_each_shipped_cell_says_how_far_off_it_is() -> None:
    for gpu, engine, dtype in calibration.shipped():
        versions, report = calibration.report_of(gpu, engine, dtype)
        assert versions
        assert report["gemm"].get("left-out widths", report["gemm"]["roofline"])["rows"] > 100
