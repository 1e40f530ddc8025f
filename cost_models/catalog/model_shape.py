"""A decoder model as the simulator sees it: shapes, and the bytes and FLOPs they imply."""

from __future__ import annotations

from dataclasses import dataclass, field

from cost_models.errors import InputError

# Bytes per element; nvfp4 has an fp8 scale for every 16 of its 4-bit elements.
DTYPE_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625}
KV_DTYPES = ("bf16", "fp8")


@dataclass(frozen=True)
class Model:
    """A dense decoder-only transformer.

    Attributes
    ----------
    name : catalogue name or file.
    num_layers, hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim,
    vocab_size, max_position_embeddings : as in the model's public configuration.
    mlp_matrices : 3 with a gate (SwiGLU, GeGLU), 2 without.
    attention_bias_dims : biases per layer, in elements of one layer's attention output.
    tie_word_embeddings : one matrix serves as embedding and lm_head.
    weight_dtype : of the linear layers: bf16, fp8 (a scale per tensor or channel),
        fp8_block (a scale per block) or nvfp4; embeddings, lm_head and norms stay bf16.
    kv_dtype : of the KV cache: bf16 or fp8.
    source : where the shape comes from.
    notes : sentences on what was assumed.
    """

    name: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    mlp_matrices: int = 3
    qkv_bias: bool = False
    qk_norm: bool = False
    tie_word_embeddings: bool = False
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    source: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def q_size(self) -> int:
        """Width of the queries: num_heads · head_dim."""
        return self.num_heads * self.head_dim

    def kv_heads_per_rank(self, tp: int) -> int:
        """KV heads on each tensor-parallel rank; they are copied when tp exceeds them."""
        return max(1, self.num_kv_heads // tp)

    def check_tp(self, tp: int) -> None:
        """Refuse a tensor-parallel size that the heads cannot be split by."""

        def splits(ranks: int) -> bool:
            by_kv = self.num_kv_heads % ranks == 0 or ranks % self.num_kv_heads == 0
            return self.num_heads % ranks == 0 and by_kv

        if tp < 1 or not splits(tp):
            sizes = [ranks for ranks in range(1, 65) if splits(ranks)]
            raise InputError(
                f"tensor_parallel {tp}: {self.name} has {self.num_heads} query heads and "
                f"{self.num_kv_heads} KV heads, which split over "
                f"{', '.join(map(str, sizes))} GPUs."
            )

    def gemm_shapes(self, tp: int = 1) -> tuple[tuple[str, int, int], ...]:
        """Matrix products of one layer on one rank: (name, n, k) for ``[m, k] @ [k, n]``."""
        kv = 2 * self.kv_heads_per_rank(tp) * self.head_dim
        ffn = self.intermediate_size // tp
        h = self.hidden_size
        return (
            ("qkv_proj", self.q_size // tp + kv, h),
            ("o_proj", h, self.q_size // tp),
            (
                "gate_up_proj" if self.mlp_matrices == 3 else "up_proj",
                ffn * (self.mlp_matrices - 1),
                h,
            ),
            ("down_proj", h, ffn),
        )

    def linear_params(self, tp: int = 1) -> int:
        """Weights of the linear layers on one rank."""
        return self.num_layers * sum(n * k for _, n, k in self.gemm_shapes(tp))

    def small_params(self, tp: int = 1) -> int:
        """Norms and biases on one rank, kept in bf16."""
        per_layer = 2 * self.hidden_size
        if self.qkv_bias:
            per_layer += self.q_size // tp + 2 * self.kv_heads_per_rank(tp) * self.head_dim
        if self.qk_norm:
            per_layer += 2 * self.head_dim
        return self.num_layers * per_layer + self.hidden_size

    def embedding_params(self, tp: int = 1) -> int:
        """Embedding and lm_head on one rank, split by the vocabulary."""
        matrices = 1 if self.tie_word_embeddings else 2
        return matrices * -(-self.vocab_size // tp) * self.hidden_size

    @property
    def params_total(self) -> int:
        """All parameters."""
        return self.linear_params() + self.small_params() + self.embedding_params()

    @property
    def params_active(self) -> int:
        """Parameters that work on each token; all of them in a dense model."""
        return self.params_total

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of weights on one rank."""
        linear = self.linear_params(tp) * DTYPE_BYTES[self.weight_dtype]
        rest = (self.small_params(tp) + self.embedding_params(tp)) * DTYPE_BYTES["bf16"]
        return int(linear + rest)

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes of KV cache per token on one rank: keys and values of every layer."""
        elements = 2 * self.num_layers * self.kv_heads_per_rank(tp) * self.head_dim
        return int(elements * DTYPE_BYTES[self.kv_dtype])

    @property
    def linear_flops_per_token(self) -> int:
        """FLOPs of the linear layers per token, all ranks together."""
        return 2 * self.linear_params()

    @property
    def lm_head_flops(self) -> int:
        """FLOPs of lm_head per sequence whose logits are computed."""
        return 2 * self.vocab_size * self.hidden_size

    @property
    def attention_flops_per_token_context(self) -> int:
        """FLOPs of QKᵀ and PV per (query token, context token), over all layers."""
        return 4 * self.q_size * self.num_layers
