"""What layers of a model can be beside dense attention and a dense MLP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """Mixture-of-experts layers; each expert is a gated MLP.

    Attributes
    ----------
    num_experts, per_token : experts of a layer, and those that each token is sent to.
    intermediate_size : of one expert.
    layers : how many of the model's layers have experts; the others have a dense MLP.
    shared_intermediate_size : of an MLP beside the experts that every token passes.
    dtype : of the experts' weights.
    """

    num_experts: int
    per_token: int
    intermediate_size: int
    layers: int
    shared_intermediate_size: int = 0
    dtype: str = "bf16"

    def params(self, hidden_size: int, experts: int) -> int:
        """Weights of `experts` experts in every layer that has them."""
        return self.layers * experts * 3 * hidden_size * self.intermediate_size


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: the cache holds one low-rank vector for all heads.

    Attributes
    ----------
    kv_lora_rank, rope_dim : of the cached vector and of its positional part.
    q_lora_rank : of the queries; 0 where they are not of low rank.
    nope_dim, value_dim : per head, of the keys' non-positional part and of the values.
    """

    kv_lora_rank: int
    rope_dim: int
    q_lora_rank: int
    nope_dim: int
    value_dim: int

    @property
    def cached(self) -> int:
        """Elements that the cache holds per token and layer."""
        return self.kv_lora_rank + self.rope_dim

    @property
    def prefill_width(self) -> int:
        """Elements per head of a key and a value, which prefills multiply by."""
        return self.nope_dim + self.rope_dim + self.value_dim
