"""The catalogue: sizes against published figures, files of the user, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cost_models import StepCost, catalog
from cost_models.errors import InputError

# Parameters as the models' authors give them, in 1e9.
PUBLISHED = {
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.55,
    "llama-3.1-405b": 405.85,
    "llama-2-7b": 6.74,
    "qwen3-32b": 32.76,
    "qwen3-14b": 14.77,
    "qwen2.5-7b": 7.62,
    "qwen2.5-72b": 72.71,
    "mistral-7b": 7.25,
    "mistral-small-24b": 23.57,
    "phi-4-14b": 14.66,
    "mixtral-8x7b": 46.70,
    "mixtral-8x22b": 140.63,
    "qwen3-30b-a3b": 30.53,
    "qwen3-235b-a22b": 235.09,
    "qwen3-coder-480b-a35b": 480.15,
    "gpt-oss-20b": 20.91,
    "gpt-oss-120b": 116.83,
    "gemma-2-9b": 9.24,
}
# Of each token, in 1e9; gpt-oss counts its embedding once, as its authors do.
PUBLISHED_ACTIVE = {
    "mixtral-8x7b": 12.9,
    "qwen3-30b-a3b": 3.3,
    "qwen3-235b-a22b": 22,
    "deepseek-v3": 37,
    "kimi-k2": 32,
    "glm-4.5-air": 12,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_parameters_are_those_published(name: str, billions: float) -> None:
    tolerance = max(0.01, 5e-4 * billions)
    assert catalog.model(name).params_total / 1e9 == pytest.approx(billions, abs=tolerance)


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_ACTIVE.items())
def test_active_parameters_are_those_published(name: str, billions: float) -> None:
    # The authors round, and some leave the embedding out.
    model = catalog.model(name)
    assert model.params_active / 1e9 == pytest.approx(billions, abs=0.06 * billions + 0.8)
    assert model.params_active < model.params_total


def test_latent_attention_by_hand() -> None:
    # DeepSeek-V3: 512 + 64 values per token and layer, on every rank, 61 layers of bf16.
    model = catalog.model("deepseek-v3")
    assert model.kv_bytes_per_token(1) == model.kv_bytes_per_token(8) == 61 * 576 * 2


def test_windows_by_hand() -> None:
    # gpt-oss-20b: every other of 24 layers sees 128 tokens; 8 KV heads of 64 values.
    model = catalog.model("gpt-oss-20b")
    assert (model.window, model.windowed_layers) == (128, 12)
    assert model.kv_bytes_per_token() == 12 * 2 * 8 * 64 * 2
    assert catalog.model("gemma-3-27b").windowed_layers == 62 - 10
    assert catalog.model("qwen2.5-7b").windowed_layers == 0


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_model_has_consistent_sizes(name: str) -> None:
    model = catalog.model(name)
    if model.latent is None and not model.windowed_layers:
        assert model.kv_bytes_per_token() == (
            2 * 2 * model.num_layers * model.num_kv_heads * model.head_dim
        )
    if model.experts is None:
        assert model.weight_bytes() == 2 * model.params_total
    assert model.params_active <= model.params_total
    assert model.source


@pytest.mark.parametrize("name", catalog.names("gpus"))
def test_every_gpu_states_its_sources(name: str) -> None:
    gpu = catalog.gpu(name)
    assert gpu.cuda_visible_bytes <= gpu.memory_bytes
    assert gpu.price_source
    assert gpu.source
    assert gpu.peak_flops("fp16") == gpu.peak_flops("bf16")


def test_llama_8b_by_hand() -> None:
    model = catalog.model("llama-3.1-8b")
    assert model.kv_bytes_per_token() == 131072  # 32 layers · 2 · 8 heads · 128 · 2 bytes
    assert model.attention_flops_per_token_context == 4 * 32 * 128 * 32
    assert model.lm_head_flops == 2 * 128256 * 4096
    per_layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    assert model.linear_flops_per_token == 2 * 32 * per_layer


def test_kv_heads_are_copied_when_ranks_exceed_them() -> None:
    model = catalog.model("qwen3-32b")  # 8 KV heads
    assert model.kv_bytes_per_token(8) == model.kv_bytes_per_token(16)
    assert model.kv_bytes_per_token(4) == model.kv_bytes_per_token() // 4


def test_a_split_that_the_heads_do_not_allow_is_refused() -> None:
    with pytest.raises(InputError, match=r"tensor_parallel 3: llama-3.1-8b has 32 query heads"):
        catalog.model("llama-3.1-8b").check_tp(3)


def test_data_types_change_bytes_only_where_they_apply() -> None:
    bf16 = catalog.model("llama-3.1-8b")
    fp8 = catalog.model({"name": "llama-3.1-8b", "weight_dtype": "fp8", "kv_dtype": "fp8"})
    assert bf16.weight_bytes() - fp8.weight_bytes() == bf16.linear_params()
    assert 2 * fp8.kv_bytes_per_token() == bf16.kv_bytes_per_token()


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


def test_a_config_json_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "rope_theta": 1e4, "num_key_value_heads": 2}))
    model = catalog.model(path)
    assert (model.num_kv_heads, model.head_dim) == (2, 16)
    # Embedding and lm_head, then per layer q, k, v, o, three of the MLP and two norms.
    layer = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 128 + 2 * 64
    assert model.params_total == 2 * 1000 * 64 + 2 * layer + 64


def test_a_null_in_config_json_is_absence(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "head_dim": None, "num_key_value_heads": None}))
    assert catalog.model(path).num_kv_heads == 4


@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
    ],
)
def test_quantised_weights_are_recognised(quantization: dict[str, object], dtype: str) -> None:
    model = catalog.model({**CONFIG, "quantization_config": quantization})
    assert model.weight_dtype == dtype


def test_gpus_are_found_by_their_other_names() -> None:
    assert catalog.gpu("b300_sxm") == catalog.gpu("b300")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": -1}, "num_hidden_layers = -1"),
        ({"architectures": ["BertModel"]}, "'BertModel' is not modelled"),
        ({"num_local_experts": 8}, "no num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"mamba_d_state": 16}, "state-space"),
        ({"text_config": {}}, "multimodal"),
        ({"quantization_config": {"quant_method": "awq"}}, "'awq'"),
    ],
)
def test_a_config_that_is_not_modelled_is_refused(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(InputError, match=told):
        catalog.model(path)


def test_names_that_do_not_exist_get_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'h100_sxm'"):
        catalog.gpu("h100-sxm")
    with pytest.raises(InputError, match="did you mean 'llama-3.1-8b'"):
        catalog.model("llama3.1-8b")
    with pytest.raises(InputError, match=r"weight_dtype = 'int3'"):
        catalog.model({"name": "qwen3-8b", "weight_dtype": "int3"})
    with pytest.raises(InputError, match="weights is not a key"):
        catalog.model({"name": "qwen3-8b", "weights": "fp8"})


def test_a_gpu_file_with_a_wrong_key_names_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((catalog.files.ROOT / "gpus" / "l40s.yaml").read_text() + "colour: green\n")
    with pytest.raises(InputError, match="colour"):
        catalog.gpu(str(path))


def test_engine_defaults_by_release_and_memory() -> None:
    h100, a100, b200 = (catalog.gpu(name) for name in ("h100_sxm", "a100_sxm", "b200_sxm"))
    newest = catalog.engine_defaults("vllm", None, h100)
    assert (newest.max_num_batched_tokens, newest.max_num_seqs) == (8192, 1024)
    assert (newest.gpu_memory_utilization, newest.async_scheduling) == (0.92, True)
    assert catalog.engine_defaults("vllm", None, b200).max_num_batched_tokens == 16384
    assert catalog.engine_defaults("vllm", "0.12.0", a100).max_num_seqs == 256
    older = catalog.engine_defaults("vllm", "0.13.1", h100)
    assert (older.version, older.gpu_memory_utilization, older.async_scheduling) == (
        "0.12",
        0.9,
        False,
    )


@pytest.mark.parametrize(
    ("engine", "version", "told"),
    [("vlm", None, "did you mean 'vllm'"), ("vllm", "new", "0.12"), ("vllm", "0.4", "older than")],
)
def test_engines_that_are_not_known(engine: str, version: str | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        catalog.engine_defaults(engine, version, catalog.gpu("h100_sxm"))


def test_early_releases_read_an_fp8_kv_cache_no_faster_than_bf16() -> None:
    def gpu_s(version: str, kv_dtype: str) -> float:
        spec = {"name": "llama-3.3-70b", "weight_dtype": "fp8", "kv_dtype": kv_dtype}
        cost = StepCost.load(spec, "h200_sxm", tp=2, engine_version=version)
        return cost.step(decode_contexts=[8192] * 32).gpu_s

    assert gpu_s("0.10.2", "fp8") == gpu_s("0.10.2", "bf16")
    assert gpu_s("0.12", "fp8") < gpu_s("0.12", "bf16")
