"""A decoder model as the simulator sees it: shapes, and the bytes and FLOPs they imply."""

from __future__ import annotations

from dataclasses import dataclass, field

from cost_models.catalog.layers import Experts, LatentAttention
from cost_models.errors import InputError

# Bytes per element; of 4 bits and a scale of 8 for every 16 elements (nvfp4) or 32 (mxfp4).
DTYPE_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625, "mxfp4": 0.53125}
KV_DTYPES = ("bf16", "fp8")


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer: dense, or with experts, windows or latent attention.

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
    experts : of the layers that have them; None for a dense model.
    latent : None for attention with keys and values per head.
    window, windowed_layers : tokens that each token sees in these layers; 0 for none.
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
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int = 0
    windowed_layers: int = 0
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

    @property
    def full_layers(self) -> int:
        """Layers in which a token sees its whole context."""
        return self.num_layers - self.windowed_layers

    def gemm_shapes(self, tp: int = 1) -> tuple[tuple[str, int, int, int], ...]:
        """Matrix products on one rank, without the experts': (name, n, k, layers).

        Each is ``[m, k] @ [k, n]`` and happens in that many layers.
        """
        layers, h, experts = self.num_layers, self.hidden_size, self.experts
        shapes = self._attention_shapes(tp)
        dense_layers = layers - (experts.layers if experts else 0)
        if dense_layers:
            gate = "gate_up_proj" if self.mlp_matrices == 3 else "up_proj"
            ffn = self.intermediate_size // tp
            shapes += [
                (gate, ffn * (self.mlp_matrices - 1), h, dense_layers),
                ("down_proj", h, ffn, dense_layers),
            ]
        if experts and experts.shared_intermediate_size:
            ffn = experts.shared_intermediate_size // tp
            shapes += [
                ("shared_gate_up_proj", 2 * ffn, h, experts.layers),
                ("shared_down_proj", h, ffn, experts.layers),
            ]
        return tuple(shapes)

    def _attention_shapes(self, tp: int) -> list[tuple[str, int, int, int]]:
        layers, h = self.num_layers, self.hidden_size
        latent, heads = self.latent, self.num_heads // tp
        if latent is None:
            kv = 2 * self.kv_heads_per_rank(tp) * self.head_dim
            return [
                ("qkv_proj", self.q_size // tp + kv, h, layers),
                ("o_proj", h, self.q_size // tp, layers),
            ]
        queries = heads * (latent.nope_dim + latent.rope_dim)
        keys_values = heads * (latent.nope_dim + latent.value_dim)
        first = latent.q_lora_rank or queries
        shapes = [("qkv_a_proj", first + latent.cached, h, layers)]
        if latent.q_lora_rank:
            shapes.append(("q_b_proj", queries, latent.q_lora_rank, layers))
        return [
            *shapes,
            ("kv_b_proj", keys_values, latent.kv_lora_rank, layers),
            ("o_proj", h, heads * latent.value_dim, layers),
        ]

    def linear_params(self, tp: int = 1) -> int:
        """Weights of the linear layers on one rank, without the experts'."""
        return sum(n * k * layers for _, n, k, layers in self.gemm_shapes(tp))

    def expert_params(self, tp: int = 1) -> int:
        """Weights of all experts on one rank, each split over the ranks."""
        if self.experts is None:
            return 0
        return self.experts.params(self.hidden_size, self.experts.num_experts) // tp

    def small_params(self, tp: int = 1) -> int:
        """Norms, biases and routers on one rank, kept in bf16."""
        per_layer = 2 * self.hidden_size
        if self.qkv_bias:
            per_layer += self.q_size // tp + 2 * self.kv_heads_per_rank(tp) * self.head_dim
        if self.qk_norm:
            per_layer += 2 * self.head_dim
        routers = self.experts.layers * self.experts.num_experts if self.experts else 0
        return self.num_layers * per_layer + self.hidden_size * (1 + routers)

    def embedding_params(self, tp: int = 1) -> int:
        """Embedding and lm_head on one rank, split by the vocabulary."""
        matrices = 1 if self.tie_word_embeddings else 2
        return matrices * -(-self.vocab_size // tp) * self.hidden_size

    @property
    def params_total(self) -> int:
        """All parameters."""
        dense = self.linear_params() + self.small_params() + self.embedding_params()
        return dense + self.expert_params()

    @property
    def params_active(self) -> int:
        """Parameters that work on each token; all of them in a dense model."""
        return self.params_total - self.expert_params() + self._active_expert_params

    @property
    def _active_expert_params(self) -> int:
        if self.experts is None:
            return 0
        return self.experts.params(self.hidden_size, self.experts.per_token)

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of weights on one rank."""
        linear = self.linear_params(tp) * DTYPE_BYTES[self.weight_dtype]
        rest = (self.small_params(tp) + self.embedding_params(tp)) * DTYPE_BYTES["bf16"]
        return int(linear + rest) + self.expert_bytes(tp)

    def expert_bytes(self, tp: int = 1, ranks: int = 1) -> int:
        """Bytes of experts on one GPU: each split over `tp`, all dealt out over `ranks`.

        Where they do not come out even, on the GPU that has most.
        """
        if self.experts is None:
            return 0
        held = -(-self.experts.num_experts // ranks)
        params = self.experts.params(self.hidden_size, held) // tp
        return int(params * DTYPE_BYTES[self.experts.dtype])

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes of KV cache per token on one rank.

        Keys and values of the layers that see the whole context; windows keep a fixed number
        of tokens per sequence, and blocks are counted by the others.  The latent vector of a
        token is held by each rank.
        """
        layers = self.full_layers or self.num_layers
        if self.latent is not None:
            elements = layers * self.latent.cached
        else:
            elements = 2 * layers * self.kv_heads_per_rank(tp) * self.head_dim
        return int(elements * DTYPE_BYTES[self.kv_dtype])

    @property
    def linear_flops_per_token(self) -> int:
        """FLOPs of the linear layers and active experts per token, all ranks together."""
        return 2 * (self.linear_params() + self._active_expert_params)

    @property
    def lm_head_flops(self) -> int:
        """FLOPs of lm_head per sequence whose logits are computed."""
        return 2 * self.vocab_size * self.hidden_size

    @property
    def attention_flops_per_token_context(self) -> int:
        """FLOPs of QKᵀ and PV per (query token, context token), over the full layers."""
        latent = self.latent
        if latent is not None:
            return 2 * self.num_heads * latent.prefill_width * self.full_layers
        return 4 * self.q_size * self.full_layers
