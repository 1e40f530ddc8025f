"""Experts and latent attention in a Hugging Face config.json, which has many names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cost_models.catalog import files
from cost_models.catalog.layers import Experts, LatentAttention
from cost_models.errors import InputError


class _Experts(BaseModel):
    model_config = ConfigDict(extra="ignore")

    num_hidden_layers: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_experts: int | None = Field(default=None, gt=0)
    num_local_experts: int | None = Field(default=None, gt=0)
    n_routed_experts: int | None = Field(default=None, gt=0)
    num_experts_per_tok: int | None = Field(default=None, gt=0)
    experts_per_token: int | None = Field(default=None, gt=0)
    moe_intermediate_size: int | None = Field(default=None, gt=0)
    n_shared_experts: int | None = Field(default=None, ge=0)
    shared_expert_intermediate_size: int | None = Field(default=None, ge=0)
    first_k_dense_replace: int = Field(default=0, ge=0)
    mlp_only_layers: list[int] = Field(default=[])
    decoder_sparse_step: int = Field(default=1, ge=1)


class _Latent(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kv_lora_rank: int = Field(gt=0)
    qk_rope_head_dim: int = Field(gt=0)
    q_lora_rank: int | None = Field(default=None, ge=0)
    qk_nope_head_dim: int = Field(gt=0)
    v_head_dim: int = Field(gt=0)


def experts(data: Mapping[str, Any], where: str, dtype: str) -> Experts | None:
    """The experts of a model; None for a dense one.

    Raises
    ------
    InputError : when a key has a value that no model has.
    """
    config = files.validate(_Experts, data, where)
    count = config.num_experts or config.num_local_experts or config.n_routed_experts
    per_token = config.num_experts_per_tok or config.experts_per_token
    if count is None:
        return None
    if per_token is None:
        raise InputError(
            f"{where}: has {count} experts but no num_experts_per_tok; add how many each token "
            "is sent to."
        )
    width = config.moe_intermediate_size or config.intermediate_size
    layers = config.num_hidden_layers - config.first_k_dense_replace - len(config.mlp_only_layers)
    return Experts(
        num_experts=count,
        per_token=per_token,
        intermediate_size=width,
        layers=layers // config.decoder_sparse_step,
        shared_intermediate_size=(
            config.shared_expert_intermediate_size or (config.n_shared_experts or 0) * width
        ),
        dtype=dtype,
    )


def latent(data: Mapping[str, Any], where: str) -> LatentAttention | None:
    """Latent attention; None for a model without."""
    if not data.get("kv_lora_rank"):
        return None
    config = files.validate(_Latent, data, where)
    return LatentAttention(
        kv_lora_rank=config.kv_lora_rank,
        rope_dim=config.qk_rope_head_dim,
        q_lora_rank=config.q_lora_rank or 0,
        nope_dim=config.qk_nope_head_dim,
        value_dim=config.v_head_dim,
    )
