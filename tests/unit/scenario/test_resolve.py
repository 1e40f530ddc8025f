"""What an engine is started with, where the scenario leaves it open."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.scenario import Resolved, Scenario, resolve


def _resolve(mapping: dict[str, Any], *overrides: str) -> Resolved:
    return resolve(Scenario.from_mapping(mapping).with_overrides(overrides))


# vLLM 0.33's API server: >= 160 GiB 16,384/1,024; >= 70 GiB and no A100 8,192/1,024;
# A100, L40S 2,048/256.
@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs"),
    [
        ("b200_sxm", 16384, 1024),
        ("h200_sxm", 8192, 1024),
        ("h100_sxm", 8192, 1024),
        ("a100_sxm", 2048, 256),
        ("l40s", 2048, 256),
    ],
)
def test_batch_limits_of_the_release_and_gpu(
    mapping: dict[str, Any], gpu: str, tokens: int, seqs: int
) -> None:
    resolved = _resolve(mapping, f"cluster.gpu={gpu}", "cluster.engine_version=0.33")
    assert (resolved.max_num_batched_tokens, resolved.max_num_seqs) == (tokens, seqs)
    assert f"scheduler.max_num_seqs: {seqs}, the default of vllm 0.33 on {gpu}" in resolved.notes
    assert resolved.scenario.kv_cache.gpu_memory_utilization == 0.92


def test_every_null_is_filled(mapping: dict[str, Any]) -> None:
    scenario = _resolve(mapping).scenario
    for section in ("cluster", "scheduler", "kv_cache"):
        values = getattr(scenario, section).model_dump()
        empty = [key for key, value in values.items() if value is None]
        off = {
            "cluster": ["autoscaler", "grid_co2_g_per_kwh", "pools"],
            "scheduler": ["speculative", "structured_output", "lora", "max_queue"],
        }
        assert empty == off.get(section, [])


def test_max_num_seqs_follows_a_smaller_budget(mapping: dict[str, Any]) -> None:
    assert _resolve(mapping, "scheduler.max_num_batched_tokens=512").max_num_seqs == 512
    with pytest.raises(InputError, match=r"8192, less than scheduler\.max_num_seqs 9000"):
        _resolve(mapping, "scheduler.max_num_seqs=9000")


def test_max_model_len_is_lowered_to_what_fits(mapping: dict[str, Any]) -> None:
    # 100 blocks of 16, one of them a placeholder: 99 x 16.
    resolved = _resolve(mapping, "kv_cache.num_gpu_blocks=100")
    assert resolved.max_model_len == 1584
    assert resolved.memory is None
    assert resolved.usable_kv_blocks == 99
    assert any("1584, what fits of the 131072" in note for note in resolved.notes)


def test_a_given_max_model_len_must_fit(mapping: dict[str, Any]) -> None:
    blocks = "kv_cache.num_gpu_blocks=100"
    assert _resolve(mapping, blocks, "kv_cache.max_model_len=1584").max_model_len == 1584
    with pytest.raises(InputError, match="1585, but the KV cache .* 1584 tokens"):
        _resolve(mapping, blocks, "kv_cache.max_model_len=1585")
    with pytest.raises(InputError, match="200000; llama-3.1-8b has 131072 positions"):
        _resolve(mapping, "kv_cache.max_model_len=200000")


def test_contiguous_reservation_has_no_placeholder(mapping: dict[str, Any]) -> None:
    resolved = _resolve(
        mapping,
        "kv_cache.num_gpu_blocks=100",
        "kv_cache.allocator=contiguous",
        "workload.max_tokens=64",
    )
    assert (resolved.usable_kv_blocks, resolved.max_model_len) == (100, 1600)


@pytest.mark.parametrize("policy", ["continuous", "orca"])
def test_whole_prompts_need_a_budget_of_max_model_len(mapping: dict[str, Any], policy: str) -> None:
    resolved = _resolve(
        mapping, f"scheduler.policy={policy}", "scheduler.max_num_batched_tokens=512"
    )
    assert resolved.max_num_batched_tokens == resolved.max_model_len == 131072
    watermark = resolved.scenario.scheduler.watermark
    assert watermark == (0.01 if policy == "continuous" else 0.0)


def test_what_fits_leaves_room_for_the_activations_of_a_whole_prompt(
    mapping: dict[str, Any],
) -> None:
    tight = ["model=llama-3.1-70b", "cluster.tensor_parallel=2", "scheduler.policy=continuous"]
    resolved = _resolve(mapping, *tight)
    length = resolved.max_model_len
    assert length < 131072
    assert length <= 16 * resolved.usable_kv_blocks
    assert resolved.max_num_batched_tokens == max(8192, length)
    # One block more does not start.
    with pytest.raises(InputError):
        _resolve(mapping, *tight, f"kv_cache.max_model_len={length + 16}")


def test_chunking_off_needs_the_budget_too(mapping: dict[str, Any]) -> None:
    off = "scheduler.enable_chunked_prefill=false"
    assert _resolve(mapping, off).max_num_batched_tokens == 131072
    with pytest.raises(InputError, match="enable_chunked_prefill is false"):
        _resolve(mapping, off, "scheduler.max_num_batched_tokens=1024")


def test_static_is_built_for_the_largest_output(mapping: dict[str, Any]) -> None:
    mapping["workload"]["lengths"] = {
        "distribution": "uniform",
        "min_prompt_tokens": 5,
        "max_prompt_tokens": 5,
        "min_output_tokens": 1,
        "max_output_tokens": 3,
    }
    resolved = _resolve(mapping, "scheduler.policy=static")
    assert resolved.scenario.workload.max_tokens == 3  # 50 draws of 1, 2, 3: one is a 3
    assert resolved.max_num_seqs == 32
    given = _resolve(mapping, "scheduler.policy=static", "workload.max_tokens=7")
    assert given.scenario.workload.max_tokens == 7
    with pytest.raises(InputError, match="batch_size is 32, more than scheduler.max_num_seqs 8"):
        _resolve(mapping, "scheduler.policy=static", "scheduler.max_num_seqs=8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model=llama-3.1-9b", "model: .*did you mean 'llama-3.1-8b'"),
        ("cluster.gpu=h100", "cluster: .*did you mean 'h100_sxm'"),
        ("cluster.engine=vlm", "cluster: .*did you mean 'vllm'"),
        ("cluster.tensor_parallel=3", "tensor_parallel 3: llama-3.1-8b has 32 query heads"),
        ("model=llama-3.1-70b", "does not fit on h100_sxm with tensor_parallel 1"),
    ],
)
def test_unknown_names_and_models_that_do_not_fit(
    mapping: dict[str, Any], change: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        _resolve(mapping, change)


def test_given_blocks_must_fit_the_gpu_unless_the_cost_model_is_linear(
    mapping: dict[str, Any],
) -> None:
    too_many = "kv_cache.num_gpu_blocks=1000000"
    assert _resolve(mapping, too_many).num_gpu_blocks == 1_000_000
    with pytest.raises(InputError, match="has room for at most .* blocks of 16 tokens"):
        _resolve(mapping, too_many, "cost_model={kind: calibrated}")


def test_switches_follow_the_release_where_the_policy_has_them(mapping: dict[str, Any]) -> None:
    keys = ("scheduler.async_scheduling", "kv_cache.enable_prefix_caching")

    def switches(*overrides: str) -> tuple[bool | None, bool | None, list[str]]:
        resolved = _resolve(mapping, *overrides)
        scheduler, kv_cache = resolved.scenario.scheduler, resolved.scenario.kv_cache
        notes = [note for note in resolved.notes if note.startswith(keys)]
        return scheduler.async_scheduling, kv_cache.enable_prefix_caching, notes

    newest = switches("cluster.engine_version=0.33")
    assert newest[:2] == (True, True)
    assert newest[2] == [f"{key}: on, the default of vllm 0.33" for key in keys]
    assert switches("cluster.engine_version=0.12")[0] is False
    assert switches("scheduler.policy=continuous")[:2] == (False, False)
    assert switches("scheduler.policy=orca", "kv_cache.enable_prefix_caching=true")[1] is True
    assert switches("scheduler.async_scheduling=false") == (
        False,
        True,
        ["kv_cache.enable_prefix_caching: on, the default of vllm 0.33"],
    )
