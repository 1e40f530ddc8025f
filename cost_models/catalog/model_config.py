"""From a Hugging Face config.json (or a catalogue entry, which holds one) to a `Model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files, special_layers
from cost_models.catalog.model_shape import DTYPE_BYTES, KV_DTYPES, Model
from cost_models.errors import InputError

# Decoders: whether the MLP has a gate, and whether q, k and v carry biases
# (None: the key attention_bias says so) and norms of their own.
GATED, PLAIN = 3, 2
ARCHITECTURES: dict[str, tuple[int, bool | None, bool]] = {
    "LlamaForCausalLM": (GATED, None, False),
    "MistralForCausalLM": (GATED, None, False),
    "Qwen2ForCausalLM": (GATED, True, False),
    "Qwen3ForCausalLM": (GATED, None, True),
    "GemmaForCausalLM": (GATED, None, False),
    "GraniteForCausalLM": (GATED, None, False),
    "Olmo2ForCausalLM": (GATED, None, True),
    "Phi3ForCausalLM": (GATED, None, False),
    "SmolLM3ForCausalLM": (GATED, None, False),
    "Glm4ForCausalLM": (GATED, None, False),
    "Starcoder2ForCausalLM": (PLAIN, True, False),
    "Gemma2ForCausalLM": (GATED, None, False),
    "Gemma3ForCausalLM": (GATED, None, True),
    "MixtralForCausalLM": (GATED, None, False),
    "Qwen3MoeForCausalLM": (GATED, None, True),
    "GptOssForCausalLM": (GATED, None, False),
    "DeepseekV2ForCausalLM": (GATED, None, False),
    "DeepseekV3ForCausalLM": (GATED, None, False),
    "Glm4MoeForCausalLM": (GATED, None, False),
    "MiniMaxM2ForCausalLM": (GATED, None, True),
}

# Keys whose presence means layers of other kinds.
UNSUPPORTED = {
    "ssm_state_size": "state-space layers",
    "mamba_d_state": "state-space layers",
    "linear_num_value_heads": "linear-attention layers",
    "is_encoder_decoder": "an encoder",
}


class HfConfig(BaseModel):
    """The keys of a Hugging Face config.json that shape the computation."""

    model_config = ConfigDict(extra="ignore")

    architectures: list[str] = Field(min_length=1)
    num_hidden_layers: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    num_key_value_heads: int | None = Field(default=None, gt=0)
    head_dim: int | None = Field(default=None, gt=0)
    vocab_size: int = Field(gt=0)
    max_position_embeddings: int = Field(gt=0)
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    sliding_window: int | None = None
    use_sliding_window: bool = True
    sliding_window_pattern: int | None = Field(default=None, gt=1)
    layer_types: list[str] | None = None
    quantization_config: dict[str, Any] | None = None


def _weight_dtype(config: HfConfig, where: str) -> str:
    """The data type of the linear layers, from the quantisers' several ways to say it."""
    quantized = config.quantization_config
    if quantized is None:
        return "bf16"
    method = str(quantized.get("quant_method", "unknown"))
    algorithm = str(quantized.get("quant_algo", "")).lower()
    if method == "mxfp4":
        return method
    if method == "modelopt" and algorithm in ("fp8", "nvfp4"):
        return algorithm
    if method == "fp8":
        return "fp8_block" if quantized.get("weight_block_size") else "fp8"
    if method == "compressed-tensors":
        groups = (quantized.get("config_groups") or {}).values()
        weights = [group.get("weights") or {} for group in groups]
        if weights and all((w.get("num_bits"), w.get("type")) == (8, "float") for w in weights):
            blocks = any(w.get("strategy") == "block" for w in weights)
            return "fp8_block" if blocks else "fp8"
    raise InputError(
        f"{where}: quantization_config of quant_method {method!r} is not supported; weights are "
        "bf16, fp8 (per tensor, channel or block) or nvfp4."
    )


def _from_config(data: Mapping[str, Any], name: str, where: str) -> Model:
    for key, what in UNSUPPORTED.items():
        if data.get(key):
            raise InputError(
                f"{where}: {key} = {data[key]!r} means {what}, which this version does not "
                "model; it takes decoders with softmax attention."
            )
    if "text_config" in data:
        raise InputError(
            f"{where}: text_config means a multimodal model, which this version does not model; "
            "give the configuration of its text decoder alone."
        )
    config = files.validate(HfConfig, data, where)
    architecture = config.architectures[0]
    if architecture not in ARCHITECTURES:
        raise InputError(
            f"{where}: architecture {architecture!r} is not modelled; known are "
            f"{', '.join(sorted(ARCHITECTURES))}."
        )
    mlp_matrices, qkv_bias, qk_norm = ARCHITECTURES[architecture]
    dtype = _weight_dtype(config, where)
    window, windowed = _windows(config)
    notes = []
    if windowed and windowed < config.num_hidden_layers:
        notes.append(
            f"{name}: {windowed} of {config.num_hidden_layers} layers see {window} tokens; blocks "
            "of the KV cache are counted for the others"
        )
    experts = special_layers.experts(data, where, "bf16" if dtype == "mxfp4" else dtype)
    if experts is not None and dtype == "mxfp4":
        experts = replace(experts, dtype="mxfp4")
    return Model(
        name=name,
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_dim=config.head_dim or config.hidden_size // config.num_attention_heads,
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_position_embeddings,
        mlp_matrices=mlp_matrices,
        qkv_bias=config.attention_bias if qkv_bias is None else qkv_bias,
        qk_norm=qk_norm,
        tie_word_embeddings=config.tie_word_embeddings,
        weight_dtype="bf16" if dtype == "mxfp4" else dtype,
        experts=experts,
        latent=special_layers.latent(data, where),
        window=window,
        windowed_layers=windowed,
        source=str(data.get("source", where)),
        notes=tuple(notes),
    )


def _windows(config: HfConfig) -> tuple[int, int]:
    """Tokens of the sliding window, and the number of layers that have it; 0, 0 for none."""
    window = config.sliding_window if config.use_sliding_window else None
    if not window or window >= config.max_position_embeddings:
        return 0, 0
    layers = config.num_hidden_layers
    if config.layer_types is not None:
        windowed = config.layer_types.count("sliding_attention")
    elif config.architectures[0] == "Gemma2ForCausalLM":
        windowed = layers - layers // 2
    elif config.sliding_window_pattern is not None:
        windowed = layers - layers // config.sliding_window_pattern
    else:
        windowed = layers
    return (window, windowed) if windowed else (0, 0)


def _named(name: str) -> Model:
    path = files.find("models", name)
    data = files.read_mapping(path)
    known = path.parent == files.ROOT / "models"
    return _from_config(data, path.stem if known else name, str(path))


def model(spec: str | Path | Mapping[str, Any]) -> Model:
    """A model by catalogue name, from a config.json, or from a mapping.

    Parameters
    ----------
    spec : a catalogue name; a path to a Hugging Face config.json; a mapping ``{name: one of
        these, weight_dtype: bf16 | fp8 | fp8_block | nvfp4 | mxfp4, kv_dtype: bf16 |
        fp8}``; or the content of a config.json.

    Raises
    ------
    InputError : for an unknown name, a missing or wrong key, or an architecture that is
        not modelled.
    """
    if not isinstance(spec, Mapping):
        return _named(str(spec))
    if "hidden_size" in spec:
        return _from_config(spec, str(spec.get("name", "model")), "model")
    unknown = sorted(set(spec) - {"name", "weight_dtype", "kv_dtype"})
    if unknown or "name" not in spec:
        what = f"model.{unknown[0]} is not a key" if unknown else "model.name is missing"
        raise InputError(f"{what}; a model mapping has name, weight_dtype and kv_dtype.")
    dtypes: dict[str, Any] = {}
    for key, allowed in (("weight_dtype", tuple(DTYPE_BYTES)), ("kv_dtype", KV_DTYPES)):
        value = spec.get(key)
        if value is None:
            continue
        if value not in allowed:
            raise InputError(f"model.{key} = {value!r}: allowed are {', '.join(allowed)}.")
        dtypes[key] = value
    return _with_dtypes(_named(str(spec["name"])), dtypes)


def _with_dtypes(found: Model, dtypes: dict[str, Any]) -> Model:
    """The model in other data types; its experts are in that of the weights."""
    weights = dtypes.get("weight_dtype")
    if weights == "mxfp4" and found.experts is None:
        raise InputError(
            f"model.weight_dtype = 'mxfp4': {found.name} has no experts, and only experts' weights "
            "are priced in it; choose another type."
        )
    if weights and found.experts is not None:
        dtypes["experts"] = replace(found.experts, dtype=weights)
        if weights == "mxfp4":
            dtypes["weight_dtype"] = "bf16"
    return replace(found, **dtypes)
