"""What a token costs in a batch of B, and what B does to throughput, TPOT and MFU."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import run, table

from cost_models import StepCost, catalog
from cost_models.bounds import bound
from simulator import simulate

T_MEM_S, T_FLOP_S = 4.8e-3, 1.62e-5  # 8B in bf16 on an H100, from the datasheet
LINEAR = {"kind": "linear", "t_mem_s": T_MEM_S, "t_flop_s_per_token": T_FLOP_S}


@pytest.mark.parametrize("b", [1, 2, 3, 8, 64])
def test_a_token_costs_t_mem_over_b_plus_t_flop_to_the_bit(b):
    # Steps of 1 + B/4 s; B prompts of one token, 5 tokens each: 5 equal steps of B tokens.
    done = run(table(*[(0.0, 1, 5)] * b), max_num_seqs=b, max_num_batched_tokens=b)
    steps = done.recording.steps
    assert (steps.end_s - steps.start_s).tolist() == [1 + b / 4] * 5
    assert steps.sampled_tokens.tolist() == [b] * 5


def throughput(describe, workload, b):
    seats = {"max_num_seqs": b, "max_num_batched_tokens": max(b, 2048)}
    result = simulate(describe(workload, scheduler=seats, cost_model=LINEAR))
    return result.summary["output_throughput"]


def test_throughput_grows_with_b_and_saturates_at_one_over_t_flop(describe, burst):
    sizes = np.array([1, 16, 256, 8192])
    served = np.array([throughput(describe, burst(int(b), 1, 8), int(b)) for b in sizes])
    np.testing.assert_allclose(served, sizes / (T_MEM_S + sizes * T_FLOP_S), rtol=1e-9)
    assert (served < sizes / (T_MEM_S + T_FLOP_S)).sum() == 3  # below proportional but for 1
    assert (served < 1 / T_FLOP_S).all()
    assert served[-1] > 0.96 / T_FLOP_S


def test_batch_16_to_128_multiplies_linear_tpot_by_136_percent(describe, burst):
    def tpot_ms(b):
        seats = {"max_num_seqs": b}
        result = simulate(describe(burst(b, 1, 100), scheduler=seats, cost_model=LINEAR))
        return result.summary["mean_tpot_ms"]

    closed_form = (T_MEM_S + 128 * T_FLOP_S) / (T_MEM_S + 16 * T_FLOP_S)
    assert tpot_ms(128) / tpot_ms(16) == pytest.approx(closed_form, rel=1e-9)
    assert closed_form == pytest.approx(1.36, abs=0.005)


@pytest.mark.parametrize(
    ("model", "tp", "context"), [("llama-3.1-8b", 1, 2048), ("qwen3-32b", 2, 4096)]
)
def test_batch_16_to_128_doubles_or_triples_a_calibrated_step_at_long_contexts(model, tp, context):
    cost = StepCost.load(model, gpu="h100_sxm", tp=tp, engine_version="0.12")
    ratio = cost.step([context] * 128).total_s / cost.step([context] * 16).total_s
    assert 2 < ratio < 3


def test_mfu_grows_with_b_while_launches_fade_and_synchronous_host_time_does_not():
    model, gpu = catalog.model("llama-3.1-8b"), catalog.gpu("h100_sxm")
    cost = StepCost.load(model, gpu=gpu, engine_version="0.12")
    sizes = (1, 16, 64, 256)
    shares, mfu = [], []
    for b in sizes:
        step = cost.step([1024] * b)
        flops = b * (
            model.linear_flops_per_token
            + model.lm_head_flops
            + 1024 * model.attention_flops_per_token_context
        )
        mfu.append(flops / step.total_s / gpu.peak_flops("bf16"))
        seconds = bound(step, gpu, "bf16").seconds
        assert sum(seconds.values()) == pytest.approx(step.total_s)
        shares.append({name: s / step.total_s for name, s in seconds.items()})
    assert (np.diff(mfu) > 0).all()
    assert mfu[0] < 0.005
    assert mfu[-1] < 0.4  # a decode never gets near the peak
    assert shares[0]["launch"] > 0.05
    assert shares[-1]["launch"] < 0.02
    assert shares[-1]["host"] > shares[0]["host"]
