"""Time of attention on one rank: decodes by table, prefills by coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models import forms, grids, kernel
from cost_models.calibration import Decode, Prefill
from cost_models.catalog import Model
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.effects import Effects, UnevenBatches

Array = NDArray[np.float64]
E = TypeVar("E", Decode, Prefill)


def _of_dim(entries: Sequence[E], dim: int) -> list[E]:
    """The entries of the head size that is nearest by ratio."""
    nearest = min((entry.head_dim for entry in entries), key=lambda known: abs(np.log(known / dim)))
    return [entry for entry in entries if entry.head_dim == nearest]


class Attention:
    """Attention of a model's layers, split over `tp` ranks.

    Parameters
    ----------
    model : its heads, head size and windows.
    tp : tensor-parallel size.
    decode, prefill : measured attention over a KV cache of the model's type.
    effects : what real steps take beyond their kernels.
    past_s_per_token : of one layer, what a chunk pays for each token that it finds cached
        beside its products.

    Notes
    -----
    Latent attention decodes as one KV head of half the cached vector's width does, shared by
    all query heads, and prefills with keys and values per head.
    """

    def __init__(
        self,
        model: Model,
        tp: int,
        decode: Sequence[Decode],
        prefill: Sequence[Prefill],
        effects: Effects,
        past_s_per_token: float = 0.0,
    ):
        self.model, self.effects, self.past_s_per_token = model, effects, past_s_per_token
        self.heads = model.num_heads // tp
        if model.latent is not None:
            self.kv_heads = 1
            self.decode_dim, self.prefill_dim = (
                model.latent.cached // 2,
                model.latent.prefill_width // 2,
            )
        else:
            self.kv_heads = model.kv_heads_per_rank(tp)
            self.decode_dim = self.prefill_dim = model.head_dim
        self.decode = _of_dim(decode, self.decode_dim)[0]
        self.prefill = grids.nearest_heads(
            _of_dim(prefill, self.prefill_dim), self.heads, self.kv_heads
        )

    @property
    def decode_flops_per_token(self) -> float:
        """FLOPs of one rank per token of context, over the full layers."""
        latent = self.model.latent
        per_head = 4 * self.decode_dim
        if latent is not None:  # the values are part of the cached vector
            per_head = 2 * (latent.cached + latent.kv_lora_rank)
        return float(per_head * self.heads * self.model.full_layers)

    @property
    def prefill_flops_per_pair(self) -> float:
        """FLOPs of one rank per query and key, over the full layers."""
        return float(4 * self.prefill_dim * self.heads * self.model.full_layers)

    def decode_s(self, seqs: ArrayLike, context: ArrayLike) -> Array:
        """Seconds over all layers: rows `seqs`, columns the `context` of each sequence.

        Windowed layers see no more than their window.
        """
        columns = np.asarray(context, dtype=np.float64)
        model = self.model
        result: Array = model.full_layers * self._layer_s(seqs, columns)
        if model.windowed_layers:
            seen = np.minimum(columns, model.window)
            result = result + model.windowed_layers * self._layer_s(seqs, seen)
        return result

    def _layer_s(self, seqs: ArrayLike, columns: Array) -> Array:
        """One layer; more sequences or longer contexts never take less time.

        The noise of single measurements would say otherwise here and there.
        """
        rows = np.asarray(seqs, dtype=np.float64)
        uneven = self._uneven
        layer_s = forms.decode_attention_s(
            self.decode.roofline if uneven is None else uneven.roofline,
            rows[:, None],
            columns[None, :],
            self.kv_heads,
            self.decode_dim,
            DTYPE_BYTES[self.model.kv_dtype],
        )
        if uneven is None and self.decode.heads:
            heads = grids.nearest_heads(self.decode.heads, self.heads, self.kv_heads)
            layer_s = layer_s * grids.decode_ratio(self.decode, heads, rows, columns)
        rising: Array = np.maximum.accumulate(np.maximum.accumulate(layer_s, axis=0), axis=1)
        return rising

    @property
    def _uneven(self) -> UnevenBatches | None:
        """The roofline of uneven batches, where it was measured for this kind of attention."""
        model, uneven = self.model, self.effects.uneven_batches
        if uneven is None or model.latent is not None or model.kv_dtype != "bf16":
            return None
        return uneven if uneven.head_dim == model.head_dim else None

    def feels(self, effect: str) -> bool:
        """Whether an effect, one that is on, changes what this model's attention takes."""
        if effect == "uneven_batches":
            return self._uneven is not None
        return self.model.latent is None

    @property
    def decode_source(self) -> str:
        """What the price of decode attention is."""
        if self._uneven is not None:
            return "roofline of uneven batches"
        return "measured grid" if self.decode.heads else "roofline fit"

    def longest_s_per_token(self, padded_seqs: NDArray[np.int64]) -> Array:
        """Seconds per token of the longest context, for each padded number of sequences."""
        longest = self.effects.longest_context
        if longest is None or self.model.latent is not None:
            return np.zeros(len(padded_seqs))
        by_size = [longest.s_per_token_of(int(size), self.kv_heads) for size in padded_seqs]
        result: Array = self.model.full_layers * np.array(by_size)
        return result

    def coefficients(self) -> Array:
        """Prefill attention over all layers, in the kernel's places.

        Windowed layers take a full window for each token: too much for shorter prompts.
        """
        fit, model = self.prefill.fit, self.model
        layers = model.num_layers
        per_pair_s = 4 * self.heads * self.prefill_dim / fit["flops_per_s"]
        coef = np.zeros(kernel.NUM_COEF)
        coef[kernel.PREFILL_BASE] = layers * fit["launch_s"]
        coef[kernel.PREFILL_PER_AREA] = model.full_layers * per_pair_s
        coef[kernel.PREFILL_PER_TOKEN] = layers * self.heads * fit["per_token_head_s"]
        coef[kernel.PREFILL_PER_TOKEN] += model.windowed_layers * model.window * per_pair_s
        coef[kernel.PREFILL_PER_SEQ] = layers * self.heads * fit["per_seq_head_s"]
        coef[kernel.PREFILL_PER_CHUNK] = model.full_layers * fit["per_kv_s"]
        coef[kernel.PREFILL_PER_PAST] = layers * self.past_s_per_token
        if model.latent is not None:  # the effects were measured on keys and values per head
            return coef
        past, longest = self.effects.past_of_chunk, self.effects.longest_context
        if self.effects.shared_launch is not None:
            coef[kernel.MIXED_SAVED] = layers * self.effects.shared_launch.saved_s_per_layer
        if past is not None:
            coef[kernel.PREFILL_PER_PAST] = (
                model.full_layers * self.kv_heads * past.s_per_token_and_kv_head
            )
        if longest is not None:
            coef[kernel.DECODE_LONGEST_BASE] = model.full_layers * longest.base_s_per_layer
        return coef
