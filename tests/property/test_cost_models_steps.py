"""What holds for any step of any calibrated configuration."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cost_models import StepCost, catalog

GPUS = ["h100_sxm", "h200_sxm", "a100_sxm", "b200_sxm", "l40s"]
MODELS = ["llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "llama-2-7b", "qwen2.5-7b"]

contexts = st.lists(st.integers(1, 200_000), max_size=40)
chunks = st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 100_000)), max_size=3)


@lru_cache
def load(model: str, gpu: str, tp: int) -> StepCost:
    return StepCost.load(model, gpu, tp)


costs = st.builds(load, st.sampled_from(MODELS), st.sampled_from(GPUS), st.sampled_from([1, 2, 4]))


@settings(max_examples=60, deadline=None)
@given(costs, contexts, chunks)
@example(load("llama-2-7b", "h100_sxm", 1), [], [(1, 0)])
def test_a_step_is_positive_and_the_sum_of_its_operations(
    cost: StepCost, decodes: list[int], prefills: list[tuple[int, int]]
) -> None:
    step = cost.step([*decodes, 1], prefills)
    # A short chunk is hidden in the launch that it shares with the decodes' attention.
    assert all(op.seconds > 0 or op.name == "prefill attention" for op in step.ops)
    assert all(op.seconds >= 0 for op in step.ops)
    assert sum(op.seconds for op in step.ops) == pytest.approx(step.gpu_s, rel=1e-9)
    assert step.total_s >= step.gpu_s


@settings(max_examples=60, deadline=None)
@given(costs, contexts, chunks, st.integers(1, 50_000))
def test_more_context_never_makes_a_step_shorter(
    cost: StepCost, decodes: list[int], prefills: list[tuple[int, int]], more: int
) -> None:
    shorter = cost.step([*decodes, 7], prefills)
    longer = cost.step([*decodes, 7 + more], prefills)
    assert longer.gpu_s >= shorter.gpu_s * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(costs, st.integers(1, 8192), st.integers(0, 50_000), st.integers(1, 50_000))
def test_more_past_never_makes_a_chunk_shorter(
    cost: StepCost, chunk: int, past: int, more: int
) -> None:
    assert cost.step([], [(chunk, past + more)]).gpu_s >= cost.step([], [(chunk, past)]).gpu_s


@settings(max_examples=60, deadline=None)
@given(costs, st.integers(1, 250))
def test_one_more_sequence_hardly_makes_a_decode_step_shorter(cost: StepCost, seqs: int) -> None:
    # Measured products are not monotone in the tokens (tiles, kernel choice), by a few per cent.
    assert cost.step([512] * (seqs + 1)).gpu_s >= 0.93 * cost.step([512] * seqs).gpu_s


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(catalog.names("models")), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_ranks_together_hold_the_whole_model(name: str, tp: int) -> None:
    model = catalog.model(name)
    try:
        model.check_tp(tp)
    except catalog.files.InputError:
        return
    assert tp * model.weight_bytes(tp) >= model.weight_bytes()
    assert tp * model.kv_bytes_per_token(tp) >= model.kv_bytes_per_token()
