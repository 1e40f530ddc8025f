"""Experts dealt out, engines that share them, and stages: shapes, memory and exchange by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cost_models import StepCost, catalog, experts
from cost_models.calibrate_experts import KEYS, calibrate_experts
from cost_models.collectives import LAUNCH_S, LINK_SHARE, Collectives
from cost_models.errors import InputError
from cost_models.memory import kv_budget
from cost_models.parallelism import Parallelism
from cost_models.pipeline import stage_layers, stage_models

H100, H200 = catalog.gpu("h100_sxm"), catalog.gpu("h200_sxm")
QWEN = catalog.model("qwen3-235b-a22b")
DEEPSEEK = catalog.model("deepseek-v3")


def test_a_gpu_holds_as_many_bytes_of_experts_whichever_way_they_are_shared() -> None:
    one = 3 * 4096 * 1536 * 2 * 94  # an expert of Qwen3-235B in each of its 94 layers, bf16
    for split in (Parallelism(8), Parallelism(8, ep=True), Parallelism(2, dp=4, ep=True)):
        assert split.expert_bytes(QWEN) == 128 * one // 8
    # 128 experts over 6 GPUs: two of them have 22, the others 21.
    assert QWEN.expert_bytes(1, 6) == 22 * one


def test_engines_that_share_experts_have_the_rest_each() -> None:
    alone, shared = Parallelism(1), Parallelism(1, dp=8, ep=True)
    dense = alone.weight_bytes(DEEPSEEK) - DEEPSEEK.expert_bytes()
    assert shared.weight_bytes(DEEPSEEK) == dense + DEEPSEEK.expert_bytes() // 8
    assert shared.gpus == 8


def test_stages_get_layers_as_vllm_deals_them() -> None:
    assert stage_layers(61, 4) == (15, 15, 16, 15)
    assert stage_layers(62, 4) == (15, 16, 16, 15)
    assert stage_layers(80, 2) == (40, 40)


def test_stages_together_are_the_model() -> None:
    for name in ("llama-3.1-70b", "deepseek-v3", "gpt-oss-120b", "qwen3-0.6b"):
        model = catalog.model(name)
        for count in (2, 3, 4):
            stages = stage_models(model, count)
            assert sum(stage.num_layers for stage in stages) == model.num_layers
            assert sum(stage.linear_params() for stage in stages) == model.linear_params()
            assert sum(stage.expert_params() for stage in stages) == model.expert_params()
            assert sum(stage.full_layers for stage in stages) == model.full_layers
            twice = model.embedding_params() if model.tie_word_embeddings else 0
            embeddings = sum(stage.embedding_params() for stage in stages)
            assert stage_models(model, 1) == (model,)
            assert embeddings == model.embedding_params() + twice
    # DeepSeek-V3's three layers without experts are its first.
    assert [s.experts.layers for s in stage_models(DEEPSEEK, 4) if s.experts] == [12, 15, 16, 15]


def test_two_stages_have_blocks_for_half_of_the_layers_each() -> None:
    model = catalog.model("llama-3.1-70b")
    alone = kv_budget(model, H100, 4)
    staged = kv_budget(model, H100, split=Parallelism(4, 2))
    assert staged.kv_bytes_per_token == alone.kv_bytes_per_token // 2
    weights = dict(staged.lines)["weights (bf16, 1 of 8 ranks)"]
    assert -weights == pytest.approx(Parallelism(4).weight_bytes(model) / 2, rel=0.02)
    assert staged.num_gpu_blocks > 2 * alone.num_gpu_blocks


def test_engines_of_a_dense_model_have_the_blocks_of_a_replica_alone() -> None:
    """They share nothing, so that none of them has buffers for an exchange."""
    model = catalog.model("llama-3.1-8b")
    alone, engine = kv_budget(model, H100), kv_budget(model, H100, split=Parallelism(1, dp=2))
    assert engine.num_gpu_blocks == alone.num_gpu_blocks
    shared = kv_budget(QWEN, H200, split=Parallelism(1, dp=4))
    assert "communication buffers" in dict(shared.lines)


def test_what_does_not_fit_says_what_would() -> None:
    with pytest.raises(InputError, match=r"tensor_parallel 1: weights of .* pipeline_parallel 2"):
        kv_budget(catalog.model("llama-3.1-70b"), H100)
    with pytest.raises(InputError, match=r"tensor_parallel 1, data_parallel 4: .*data_parallel 8"):
        kv_budget(DEEPSEEK, H200, split=Parallelism(1, dp=4, ep=True))


def test_splits_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="llama-3.1-8b has no experts"):
        Parallelism(2, ep=True).check(catalog.model("llama-3.1-8b"))
    with pytest.raises(InputError, match="experts of 1536 rows do not split over 1024"):
        Parallelism(2, dp=512).check(QWEN)
    with pytest.raises(InputError, match="has 128 experts; take fewer"):
        Parallelism(1, dp=256, ep=True).check(QWEN)
    with pytest.raises(InputError, match="has 94 layers"):
        Parallelism(1, pp=95).check(QWEN)


def test_experts_that_are_dealt_out_are_all_met_by_fewer_tokens() -> None:
    """Eight ranks with an even share each read an eighth of the experts that are met."""
    params = {
        "launch_s": 0.0,
        "weight_bytes_per_s": 1e12,
        "activation_bytes_per_s": 1e30,
        "flops_per_s": 1e30,
        "overlap": 20.0,
        "rank_skew": 0.0,
    }
    shape = (2048, 768, 128, 8, 2.0)
    whole, eighth = (float(experts.roofline_s(params, 64, *shape, r)) for r in (1, 8))
    assert whole / eighth == pytest.approx(8)
    # All tokens go to the rank with most: 16 experts, of which a token takes all it can.
    params["rank_skew"] = 1.0
    skewed = float(experts.roofline_s(params, 64, *shape, 8))
    met = 16 * (1 - (1 - 8 * 8 / 128) ** 64)
    assert skewed == pytest.approx(met * 3 * 2048 * 768 * 2 / 1e12)


def test_the_fit_finds_how_unevenly_ranks_are_loaded() -> None:
    truth = {
        "launch_s": 2e-5,
        "weight_bytes_per_s": 2.5e12,
        "activation_bytes_per_s": 1e12,
        "flops_per_s": 5e14,
        "overlap": 3.0,
    }
    rows = []
    tokens = 2 ** np.arange(14)
    for hidden, width, per_token, count in ((4096, 1536, 8, 128), (2048, 768, 8, 128)):
        for ep in (1, 2, 4, 8):
            skew = truth | ({"rank_skew": 0.25} if ep > 1 else {})
            seconds = experts.roofline_s(skew, tokens, hidden, width, count, per_token, 2, ep)
            shape = (hidden, width, per_token, count, 1, ep)
            rows += [(*shape, m, s) for m, s in zip(tokens, seconds, strict=True)]
    table = pd.DataFrame(rows, columns=[*KEYS, "tokens", "seconds"])
    fitted = calibrate_experts({"bf16": table}, H100, "vllm", "1", "here", "none").dtypes["bf16"]
    assert fitted.dealt_out is not None
    assert fitted.dealt_out["rank_skew"] == pytest.approx(0.25, rel=0.1)
    assert fitted.report["left-out shapes, dealt out"]["mape_pct"] < 2


def test_messages_are_those_of_the_table_at_its_points() -> None:
    messages = Collectives(H100)
    assert messages.measured is not None
    found = {(t.operation, t.ranks): t for t in messages.measured.tables}
    gather, scatter = found["all_gather", 4], found["reduce_scatter", 4]
    expected = np.add(gather.seconds, scatter.seconds)
    np.testing.assert_allclose(messages.exchange_s(4, gather.elements), expected, rtol=1e-12)
    # An eighth of a gigabyte to another GPU goes at no more than the link's 450 GB/s.
    assert messages.hand_on_s(1, [1 << 26])[0] * H100.link_bytes_per_s > 1 << 27
    with pytest.raises(InputError, match="measured among 2, 4, 8 of them only"):
        messages.exchange_s(16, [1024])


def test_messages_of_a_gpu_that_nobody_measured_go_at_a_share_of_its_link() -> None:
    unknown = H100.model_copy(update={"name": "my_own"})
    seconds = Collectives(unknown).hand_on_s(1, [1 << 20])[0]
    assert seconds == pytest.approx(LAUNCH_S + 2 * 2**20 / (LINK_SHARE * 4.5e11))


def test_with_expert_parallelism_nothing_but_the_experts_changes() -> None:
    spec = {"name": "qwen3-235b-a22b", "weight_dtype": "fp8_block"}
    steps = [
        StepCost.load(spec, "h200_sxm", split=split).step([2048] * 32)
        for split in (Parallelism(4), Parallelism(4, ep=True))
    ]
    parts = [{op.name: op.seconds for op in step.ops} for step in steps]
    assert {name for name in parts[0] if parts[0][name] != parts[1][name]} == {"experts"}


def test_engines_that_share_experts_pay_for_the_tokens_of_all() -> None:
    split = Parallelism(1, dp=8, ep=True)
    cost = StepCost.load("deepseek-v3", "h200_sxm", split=split)
    parts = {op.name: op.seconds for op in cost.step([2048] * 32).ops}
    alone = experts.ExpertTime(DEEPSEEK.experts, 7168, split, "h200_sxm", "vllm")
    assert parts["experts"] == pytest.approx(58 * float(alone.layer_s([8 * 32])[0]))
    exchanged = Collectives(H200).exchange_s(8, [8 * 32 * (7168 + 256)])
    assert parts["expert exchange"] == pytest.approx(58 * float(exchanged[0]))
    assert "all_reduce" not in parts


def test_a_pass_through_stages_takes_as_long_as_the_layers_and_the_messages() -> None:
    whole, staged = (
        StepCost.load("llama-3.1-70b", "h100_sxm", split=split).step([1024] * 32)
        for split in (Parallelism(4), Parallelism(4, 2))
    )
    sent_s = float(Collectives(H100).hand_on_s(4, [2 * 32 * 8192])[0])
    assert staged.gpu_s - whole.gpu_s == pytest.approx(sent_s)
