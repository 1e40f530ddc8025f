"""Mixture-of-experts layers: experts met, tables at their knots, fits that find what made them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cost_models import StepCost, catalog, experts
from cost_models.calibrate_experts import KEYS, calibrate_experts
from cost_models.catalog.layers import Experts
from cost_models.errors import InputError
from cost_models.experts import ExpertTime, distinct_experts
from cost_models.parallelism import Parallelism

H100 = catalog.gpu("h100_sxm")


def test_experts_met_by_hand() -> None:
    # One token meets k; two tokens of k = 1 among 2 experts meet 1 or 2: 1.5 on average.
    assert distinct_experts(128, 8, 1) == pytest.approx(8)
    assert distinct_experts(2, 1, 2) == pytest.approx(1.5)
    assert distinct_experts(8, 2, 10_000) == pytest.approx(8)


def test_a_measured_shape_is_its_table() -> None:
    model = catalog.model("mixtral-8x7b")
    assert model.experts is not None
    time = ExpertTime(model.experts, model.hidden_size, Parallelism(2), "h100_sxm", "vllm")
    assert time.table is not None
    assert time.source == "measured table"
    at_knots = time.layer_s(time.measured.tokens)
    np.testing.assert_allclose(at_knots * 1e6, time.table.microseconds, rtol=1e-12)
    last = time.measured.tokens[-1]
    assert time.layer_s([2 * last])[0] == pytest.approx(2 * at_knots[-1])


def test_a_shape_without_a_table_takes_the_roofline() -> None:
    own = Experts(num_experts=32, per_token=4, intermediate_size=1000, layers=10)
    time = ExpertTime(own, 3000, Parallelism(), "h100_sxm", "vllm")
    assert time.source == "roofline fit"
    seconds = time.layer_s(2 ** np.arange(14))
    # Never faster than reading the weights of the experts met at the datasheet's pace.
    met = distinct_experts(32, 4, 2 ** np.arange(14))
    assert (seconds > met * 3 * 3000 * 1000 * 2 / H100.memory_bandwidth_bytes_per_s).all()
    assert (np.diff(seconds) > 0).all()


def test_a_step_of_a_sparse_model_reads_the_experts_it_meets() -> None:
    cost = StepCost.load("qwen3-30b-a3b", "h100_sxm")
    one, many = (cost.step([1024] * seqs) for seqs in (1, 64))

    def expert_bytes(step):
        return next(op.bytes for op in step.ops if op.name == "experts")

    # 8 of 128 experts, 3 matrices of 2048 x 768 in bf16, 48 layers.
    assert expert_bytes(one) == pytest.approx(48 * 8 * 3 * 2048 * 768 * 2)
    assert 7 < expert_bytes(many) / expert_bytes(one) < 16
    assert sum(op.seconds for op in many.ops) == pytest.approx(many.gpu_s, rel=0.02)
    assert "experts" in cost.provenance


def test_windows_cap_the_context_of_their_layers() -> None:
    cost = StepCost.load("gpt-oss-120b", "h200_sxm")
    full = StepCost.load("qwen3-30b-a3b", "h200_sxm")

    def longer_s(price: StepCost) -> float:
        return price.step([65536] * 16).gpu_s - price.step([1024] * 16).gpu_s

    # gpt-oss has 18 full layers with 8 KV heads of 64; Qwen3 48 with 4 of 128: 2.7 times.
    assert longer_s(full) / longer_s(cost) == pytest.approx(48 / 18, rel=0.25)


def test_what_is_not_measured_is_refused() -> None:
    with pytest.raises(InputError, match="experts in fp8 are not measured on a100_sxm"):
        experts.load("a100_sxm", "vllm", "fp8")
    with pytest.raises(InputError, match="has no experts"):
        catalog.model({"name": "qwen3-8b", "weight_dtype": "mxfp4"})


def test_the_fit_finds_the_roofline_that_made_the_rows() -> None:
    truth = {
        "launch_s": 2e-5,
        "weight_bytes_per_s": 2.5e12,
        "activation_bytes_per_s": 1e12,
        "flops_per_s": 5e14,
        "overlap": 3.0,
    }
    rows = []
    for hidden, width, per_token, count in ((4096, 14336, 2, 8), (2048, 768, 8, 128)):
        for tp in (1, 2):
            tokens = 2 ** np.arange(14)
            seconds = experts.roofline_s(truth, tokens, hidden, width / tp, count, per_token, 2)
            shape = (hidden, width, per_token, count, tp, 1)
            rows += [(*shape, m, s) for m, s in zip(tokens, seconds, strict=True)]
    table = pd.DataFrame(rows, columns=[*KEYS, "tokens", "seconds"])
    fitted = calibrate_experts({"bf16": table}, H100, "vllm", "1", "here", "none").dtypes["bf16"]
    assert fitted.report["roofline"]["mape_pct"] < 0.5
    assert fitted.roofline["weight_bytes_per_s"] == pytest.approx(2.5e12, rel=0.02)
    assert fitted.roofline["flops_per_s"] == pytest.approx(5e14, rel=0.02)
    assert len(fitted.tables) == 4


def test_four_bit_weights_are_those_of_the_kernels_that_servers_run() -> None:
    """Hopper's 4-bit products are Marlin's, slower for prompts and faster for decodes."""
    pytest.importorskip("aiconfigurator_core")
    from cost_models.importers import aiconfigurator, aiconfigurator_moe

    tables, _ = aiconfigurator_moe.read(aiconfigurator.SOURCE, H100, "vllm")
    shapes = set(tables["mxfp4"][["hidden_size", "num_experts"]].itertuples(index=False))
    assert (2880, 128) not in shapes  # gpt-oss-120b, which has rows of Triton's kernel alone
    assert {(3584, 896), (4096, 128)} <= shapes
    model = catalog.model("gpt-oss-120b")
    assert model.experts is not None
    time = ExpertTime(model.experts, model.hidden_size, Parallelism(), "h100_sxm", "vllm")
    triton_s = np.array([122e-6, 3968e-6])  # its rows of 4 and 8,192 tokens
    marlin_s = time.layer_s([4, 8192])
    assert marlin_s[0] < triton_s[0]
    assert marlin_s[1] > 1.5 * triton_s[1]
