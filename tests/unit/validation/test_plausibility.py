"""What a GPU cannot have done, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models import calibration
from simulator.validation.measured import CannotSimulateError, Measured
from simulator.validation.plausibility import busy_share, requests_per_s, with_doubts

# Llama 2 7B: 32 layers of 4 x 4096 x 4096 and 3 x 4096 x 11008 weights, keys and values of 32
# heads of 128 elements.
WEIGHTS = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
KV_BYTES = 2 * 32 * 32 * 128 * 2


def run(where: str, ttft_ms: float, tpot_ms: float) -> Measured:
    return Measured(
        where=where,
        engine="vllm",
        engine_version="0.12",
        gpu="h100_sxm",
        model="llama-2-7b",
        weight_dtype="bf16",
        kv_dtype="bf16",
        tp=1,
        load="closed_loop",
        load_value=10,
        prompt_tokens=(1000, 1000),
        output_tokens=(101, 101),
        results={"ttft_ms_mean": ttft_ms, "tpot_ms_mean": tpot_ms},
    )


def test_the_rate_of_a_closed_loop() -> None:
    # Ten clients, each with a request of 100 ms and 100 more tokens of 9 ms.
    assert requests_per_s(run("a:2", 100, 9)) == 10
    open_loop = replace(run("a:2", 100, 9), load="poisson", results={"req_per_s": 3.0})
    assert requests_per_s(open_loop) == 3.0


def test_the_least_that_the_gpu_had_to_do() -> None:
    fastest = calibration.load("h100_sxm", "vllm", "bf16").gemm.roofline["flops_per_s"]
    compute_s = 2 * WEIGHTS * 1101 / fastest
    read_s = 101 * (1000 + 101 / 2) * KV_BYTES / 3.35e12
    assert busy_share(run("a:2", 100, 9)) == pytest.approx(10 * (compute_s + read_s), rel=1e-3)
    assert busy_share(replace(run("a:2", 100, 9), gpu="rtx_4090")) is None


def test_a_series_half_of_which_is_beyond_the_gpu_is_doubtful() -> None:
    # At 10 requests/s the GPU is busy for a third of the time or so; at 100 for thrice all of it.
    slow, fast = run("a:2", 100, 9), run("a:3", 10, 0.9)
    left_out = CannotSimulateError("a reason")
    found = with_doubts([slow, left_out, fast])
    assert found[1] is left_out
    measured = [row for row in found if isinstance(row, Measured)]
    assert measured[0].doubt == measured[1].doubt
    assert "1 of 2 runs ask for up to 3" in measured[0].doubt
    assert measured[0].group == ("vllm 0.12", "h100_sxm", "llama-2-7b bf16, doubtful")
    # Of another file, or with another that is as told, it is not.
    assert with_doubts([slow, replace(fast, where="b:2")])[0] == slow
    three = [slow, replace(slow, where="a:4"), fast]
    assert with_doubts(three) == three
