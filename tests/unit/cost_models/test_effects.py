"""Effects beyond the kernels: by hand, switched off, and against single engine steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cost_models import StepCost, catalog, effects
from cost_models.calibrate import calibrate
from cost_models.errors import InputError
from cost_models.importers import own_csv
from cost_models.kernel import step_time


def test_the_longest_context_is_split_over_free_multiprocessors() -> None:
    longest = effects.LongestContext(s_per_token=4e-9, base_s_per_layer=1e-5, multiprocessors=148)
    # 16 sequences of 2 KV heads: 32 groups, 4 multiprocessors for each.
    assert longest.s_per_token_of(16, 2) == 1e-9
    # 24 of 4: 96 groups, one for each.
    assert longest.s_per_token_of(24, 4) == 4e-9
    # 37 of 8: 296 groups, two waves.
    assert longest.s_per_token_of(37, 8) == 8e-9


def test_effects_are_switched_off_by_name() -> None:
    measured = effects.load("b300", "vllm")
    assert measured.names == ("longest_context", "past_of_chunk", "eager_steps")
    assert effects.less(measured, ["eager_steps"]).names == ("longest_context", "past_of_chunk")
    assert effects.load("a100_sxm", "vllm").names == ()
    with pytest.raises(InputError, match="effect 'eager' is not known"):
        effects.less(measured, ["eager"])


def test_uneven_batches_are_priced_by_their_own_roofline() -> None:
    price = StepCost.load("llama-3.1-8b", "h200_sxm")
    attention = {op.name: op for op in price.step([2048, 2048, 4096, 8192]).ops}["decode attention"]
    # 32 layers; 16,384 tokens in all, of 8 KV heads and 128 dimensions, bf16, keys and values.
    read_s = 16384 * 2 * 8 * 128 * 2 / 4.2558e12
    assert attention.seconds == pytest.approx(32 * (1.0906e-5 + read_s + 4 * 8 * 7.8573e-9))
    assert attention.source == "roofline of uneven batches"
    # The kernels of 64 dimensions and of fp8 caches were not measured.
    small = StepCost.load("llama-3.2-1b", "h200_sxm").step([2048] * 4)
    assert {op.name: op for op in small.ops}["decode attention"].source == "measured grid"


def test_the_effects_of_the_h200_are_fitted_to_the_rows_beside_them() -> None:
    rows = Path(effects.__file__).parent / "catalog" / "effects" / "h200_sxm-vllm.csv"
    device = catalog.gpu("h200_sxm")
    found = calibrate(own_csv.read(rows, device, "vllm", "bf16"), device).effects
    shipped = effects.load("h200_sxm", "vllm")
    assert found is not None
    assert found.uneven_batches == shipped.uneven_batches
    assert found.past_of_chunk == shipped.past_of_chunk


def test_decodes_and_chunks_share_a_launch() -> None:
    shared = StepCost.load("llama-3.1-8b", "h200_sxm")
    apart = StepCost.load("llama-3.1-8b", "h200_sxm", without=["shared_launch"])
    mixed = [512] * 64, [(512, 0)]
    saved_s = apart.step(*mixed).gpu_s - shared.step(*mixed).gpu_s
    assert saved_s == pytest.approx(32 * 1.2e-5)
    assert apart.step([512]).gpu_s == shared.step([512]).gpu_s
    assert apart.step([], [(64, 0)]).gpu_s == shared.step([], [(64, 0)]).gpu_s


def test_each_effect_adds_to_the_steps_it_is_about() -> None:
    with_all = StepCost.load("qwen3-32b", "b300", 4)
    without = StepCost.load("qwen3-32b", "b300", 4, without=effects.NAMES)
    assert with_all.step([4096] * 4).gpu_s == without.step([4096] * 4).gpu_s
    uneven = [16000, *[2000] * 30]
    assert with_all.step(uneven).gpu_s > without.step(uneven).gpu_s
    # 8,161 tokens of past, 2 KV heads on a rank, 64 layers, at 5.6 ns.
    past = [(256, 8161)]
    extra_s = with_all.step([], past).gpu_s - without.step([], past).gpu_s
    assert extra_s == pytest.approx(8161 * 2 * 64 * 5.6e-9)
    assert with_all.step([], [(256, 0)]).gpu_s == without.step([], [(256, 0)]).gpu_s
    # 600 tokens are launched kernel by kernel: 64 layers at 0.36 ms set the pace.
    assert with_all.step([], [(600, 0)]).gpu_s > 64 * 3.6e-4
    assert "longest_context" in with_all.provenance
    assert "beyond kernels" not in without.provenance


MODEL = "Qwen/Qwen3-32B"


def recorded_steps(shared: Path, segment: str) -> pd.DataFrame:
    """Steps of TP4, which nothing was fitted to, without the start's outliers of seconds."""
    path = shared / "measured" / "step_level_vllm_b300.csv.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    steps = pd.read_csv(path)
    steps = steps[(steps["model"] == MODEL) & (steps["tp"] == 4)]
    return steps[steps["workload_segment"] == segment].reset_index(drop=True)


def longest_contexts(steps: pd.DataFrame) -> np.ndarray:
    """Longest context of each step, found backwards from the last, which decodes one.

    Going back a step, every context is one shorter; what then is missing of the sum had
    ended, and a context equal to the prompt just computed had begun.  NaN before the first
    moment at which this is ambiguous.
    """
    columns = ["num_decode_requests", "sum_decode_kv_tokens", "num_prefill_requests"]
    columns += ["sum_prefill_tokens", "sum_prefill_kv_tokens"]
    rows = steps[columns].to_numpy(dtype=int)
    longest = np.full(len(rows), np.nan)
    contexts = [float(rows[-1][1])]
    for i in range(len(rows) - 2, -1, -1):
        seqs, total, prompts, chunk, past = rows[i]
        if prompts > 1:
            break
        begun = [c for c in contexts if prompts and abs(c - (chunk + past + 1)) <= 1]
        if begun:
            contexts.remove(begun[0])
        contexts = [context - 1 for context in contexts]
        ended = seqs - len(contexts)
        if ended:
            contexts += [(total - sum(contexts)) / ended] * ended
        longest[i] = max(contexts)
    return longest


def relative_errors(steps: pd.DataFrame) -> np.ndarray:
    cost = StepCost.load("qwen3-32b", "b300", 4, max_num_seqs=128, async_scheduling=True)
    tables = cost.tables(16384, 128)
    errors = []
    for row in steps.itertuples():
        prompts, chunk, past = (
            row.num_prefill_requests,
            row.sum_prefill_tokens,
            row.sum_prefill_kv_tokens,
        )
        area = chunk * (past + chunk / 2) / max(1, prompts)
        gpu_s, host_s = step_time(
            tables,
            row.num_decode_requests + chunk,
            row.num_decode_requests,
            row.sum_decode_kv_tokens,
            int(row.longest),
            prompts,
            chunk,
            area,
            past + chunk,
            row.num_decode_requests + prompts,
        )
        errors.append((gpu_s + host_s) * 1e3 / row.latency_ms - 1)
    return np.array(errors)


def test_decode_steps_of_real_traffic(shared: Path) -> None:
    steps = recorded_steps(shared, "real")
    steps["longest"] = longest_contexts(steps)
    steps = steps[(steps["num_prefill_requests"] == 0) & steps["longest"].notna()]
    thousands = (steps["sum_decode_kv_tokens"] / 1000).round()
    medians = steps.groupby([steps["num_decode_requests"], thousands]).median(numeric_only=True)
    medians = medians.assign(num_decode_requests=medians.index.get_level_values(0))
    medians = medians.astype(
        {name: int for name in medians if name not in ("latency_ms", "longest")}
    )
    errors = relative_errors(medians)
    assert len(errors) > 80
    assert np.abs(errors).mean() <= 0.08
    assert abs(errors.mean()) <= 0.05


@pytest.mark.parametrize("segment", ["sweep", "real"])
def test_steps_with_prompts(shared: Path, segment: str) -> None:
    steps = recorded_steps(shared, segment)
    mean = steps["sum_decode_kv_tokens"] / steps["num_decode_requests"].clip(lower=1)
    steps["longest"] = mean
    if segment == "real":  # sweeps are uniform
        found = longest_contexts(steps)
        steps["longest"] = np.where(np.isnan(found), mean, found)
    steps = steps[(steps["num_prefill_requests"] > 0) & (steps["latency_ms"] < 1000)]
    errors = relative_errors(steps)
    with_past = (steps["sum_prefill_kv_tokens"] > 0).to_numpy()
    assert with_past.sum() > 30
    assert np.abs(errors).mean() <= 0.10
    assert abs(errors[with_past].mean()) <= 0.05
