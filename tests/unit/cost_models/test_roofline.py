"""A calibrated step: its parts, its limits and the ends of its tables."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models import StepCost, calibration, catalog
from cost_models.bounds import bound, share_of_peak
from cost_models.errors import InputError
from cost_models.kernel import step_time
from cost_models.step_cost import Batch

H100 = catalog.gpu("h100_sxm")
LLAMA = catalog.model("llama-3.1-8b")


@pytest.fixture(scope="module")
def cost() -> StepCost:
    return StepCost.load(LLAMA, H100)


@pytest.mark.parametrize(
    ("decodes", "chunks"),
    [([700] * 5, []), ([], [(512, 0)]), ([900, 3000] * 16, [(512, 1024), (100, 0)])],
)
def test_operations_add_up_to_the_step(decodes: list[int], chunks: list[tuple[int, int]]) -> None:
    step = StepCost.load("llama-3.1-70b", "h100_sxm", 4).step(decodes, chunks)
    assert sum(op.seconds for op in step.ops) == pytest.approx(step.gpu_s, rel=1e-12)
    assert step.total_s == step.gpu_s + step.host_s
    assert {"all_reduce", "logits gather"} <= {op.name for op in step.ops}


def test_one_decode_takes_little_longer_than_reading_the_weights(cost: StepCost) -> None:
    # Embedding rows are gathered, not read through: 7.5e9 of 8.03e9 parameters are read.
    read_s = 2 * (LLAMA.linear_params() + 128256 * 4096) / H100.memory_bandwidth_bytes_per_s
    step = cost.step([1])
    assert read_s < step.gpu_s < 1.5 * read_s


def test_a_long_prompt_takes_little_longer_than_its_products(cost: StepCost) -> None:
    ideal_s = 8192 * LLAMA.linear_flops_per_token / H100.peak_flops()
    step = cost.step([], [(8192, 0)])
    assert ideal_s < step.gpu_s < 2 * ideal_s


def test_bytes_and_flops_of_the_operations_are_the_models(cost: StepCost) -> None:
    step = cost.step([2048] * 64, [])
    ops = {op.name: op for op in step.ops}
    products = [op for name, op in ops.items() if name.endswith("_proj")]
    assert sum(op.flops or 0 for op in products) == 64 * LLAMA.linear_flops_per_token
    assert ops["decode attention"].bytes == 64 * 2048 * LLAMA.kv_bytes_per_token()
    assert ops["lm_head"].flops == 64 * LLAMA.lm_head_flops
    for op in step.ops:
        share = share_of_peak(op, H100, "bf16")
        assert share is None or share <= 1.0


def test_a_decode_step_is_priced_at_its_captured_size(cost: StepCost) -> None:
    step_s = {seqs: cost.step([1] * seqs).gpu_s for seqs in (8, 9, 16, 17)}
    # Within one captured size only attention and logits grow; across one, a jump.
    assert step_s[9] - step_s[8] > 5 * (step_s[16] - step_s[9]) / 7


def test_tables_cover_what_they_promise_and_carry_on(cost: StepCost) -> None:
    small, large = cost.tables(600, 8), cost.tables(9000, 512)
    inside = Batch.of([300] * 5, [(500, 100)])
    assert step_time(small, *inside) == step_time(large, *inside)
    # Beyond the end: a line through the fit at twice the end, within 3 % up to there.
    for tokens in (1024, 2048, 3072):
        carried, _ = step_time(cost.tables(2048, 8), *Batch.of([], [(tokens, 0)]))
        tabled, _ = step_time(large, *Batch.of([], [(tokens, 0)]))
        assert carried == pytest.approx(tabled, rel=0.03)


def test_host_time_is_the_releases(cost: StepCost) -> None:
    host = catalog.engine_defaults("vllm", None, H100).host
    assert cost.step([1] * 10).host_s == host.per_step_s + 10 * host.per_seq_s


def test_more_ranks_make_a_step_shorter_but_not_in_proportion() -> None:
    steps = [
        StepCost.load("llama-3.1-70b", "h100_sxm", tp).step([1024] * 32).gpu_s for tp in (2, 4, 8)
    ]
    assert steps[0] > steps[1] > steps[2] > steps[0] / 4


def test_attention_never_gets_cheaper_with_context_or_sequences(cost: StepCost) -> None:
    table = cost.tables(64, 300).decode_attention_s[:, :-1]
    assert (np.diff(table, axis=0) >= 0).all()
    assert (np.diff(table, axis=1) >= 0).all()


def test_what_bounds_a_step(cost: StepCost) -> None:
    # By the roofline: one token per 16 GB of weights, or thousands of tokens per weight.
    assert bound(cost.step([512]), H100, "bf16").name == "memory"
    assert bound(cost.step([], [(8192, 0)]), H100, "bf16").name == "compute"
    linear = StepCost.linear(1e-3, 0.0).step([1])
    assert bound(linear, H100, "bf16").seconds["host"] == 0.0


def test_provenance_names_source_versions_and_errors(cost: StepCost) -> None:
    assert "aiconfigurator-core" in cost.provenance
    assert "vllm 0.24.0" in cost.provenance
    assert "GEMM" in cost.provenance
    assert "host: 0.8 ms/step" in cost.provenance
    assert cost.floor == cost.step([1]).total_s


@pytest.mark.parametrize("entry", calibration.shipped())
def test_every_shipped_calibration_loads_and_is_plausible(entry: tuple[str, str, str]) -> None:
    gpu, engine, dtype = entry
    fitted = calibration.load(gpu, engine, dtype)
    device = catalog.gpu(gpu)
    assert (fitted.gpu, fitted.engine, fitted.dtype) == entry
    assert fitted.gemm.roofline["weight_bytes_per_s"] <= device.memory_bandwidth_bytes_per_s
    assert fitted.gemm.roofline["flops_per_s"] <= device.peak_flops(dtype)
    assert len(fitted.gemm.permille) == len(fitted.gemm.m) * len(fitted.gemm.n)
    for decode in fitted.decode:
        assert decode.roofline["kv_bytes_per_s"] <= device.memory_bandwidth_bytes_per_s


def test_smaller_weights_and_a_smaller_cache_make_decodes_shorter() -> None:
    def gpu_s(**dtypes: str) -> float:
        spec = {"name": "llama-3.1-70b", **dtypes}
        return StepCost.load(spec, "b300", 2).step([8192] * 16).gpu_s

    bf16, fp8 = gpu_s(), gpu_s(weight_dtype="fp8")
    assert 0.5 * bf16 < fp8 < 0.8 * bf16
    assert gpu_s(weight_dtype="nvfp4") < fp8
    assert gpu_s(weight_dtype="fp8", kv_dtype="fp8") < fp8


def test_fp8_products_jump_between_token_counts_as_measured() -> None:
    # On H100, 513 tokens take far longer than 512: the kernel changes.
    cost = StepCost.load({"name": "llama-3.1-8b", "weight_dtype": "fp8"}, "h100_sxm")
    aligned, above = (cost.step([], [(tokens, 0)]).gpu_s for tokens in (512, 513))
    assert above > 1.3 * aligned


def test_refusals() -> None:
    with pytest.raises(InputError, match="split over"):
        StepCost.load("llama-3.1-8b", "h100_sxm", 3)
    with pytest.raises(InputError, match="measured for 2, 4, 8"):
        StepCost.load("llama-3.1-8b", "h100_sxm", 16)
    with pytest.raises(
        InputError, match="no calibration of a100_sxm under vllm in fp8; a100_sxm has bf16"
    ):
        StepCost.load({"name": "llama-3.1-8b", "weight_dtype": "fp8"}, "a100_sxm")
    with pytest.raises(InputError, match=r"cost_model\.kind = 'exact'"):
        StepCost.load("llama-3.1-8b", "h100_sxm", kind="exact")
    with pytest.raises(InputError, match="1 or more"):
        StepCost.load("llama-3.1-8b", "h100_sxm").tables(0, 1)
