"""What a profile measures: a model's own products, its attention, and its small kernels.

About 200 points say what the fits need: products over the tokens of a step, decode attention
over sequences and contexts, even and uneven, and prefill attention with and without a past.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from cost_models.catalog import Model
from cost_models.errors import InputError

EVEN, ONE_LONG, SPREAD, LOGNORMAL = "even", "one_long", "spread", "lognormal"
LOGNORMAL_SIGMA = 0.8  # of the contexts of a decode batch, about that of chat traffic


@dataclass(frozen=True)
class Case:
    """One thing to time: an operation and its sizes, named as in the CSV's columns, in order."""

    op: str
    sizes: tuple[tuple[str, int | str], ...]

    def __getitem__(self, name: str) -> int:
        return int(dict(self.sizes)[name])

    @property
    def shape(self) -> str:
        """Of a decode batch: how the contexts of its sequences differ."""
        return str(dict(self.sizes)["shape"])


def case(op: str, **sizes: int | str) -> Case:
    """A `Case` from keywords."""
    return Case(op, tuple(sorted(sizes.items())))


def contexts(of: Case) -> list[int]:
    """Context of each sequence of a decode batch, the longest first; `context` on average.

    Real batches are uneven, and the tables that engines' kernels come with are not.
    """
    seqs, mean, longest = of["seqs"], of["context"], of["longest"]
    if of.shape == ONE_LONG:
        return [longest] + [max(1, (seqs * mean - longest) // (seqs - 1))] * (seqs - 1)
    if of.shape == SPREAD:
        shortest = 2 * mean - longest
        step = (longest - shortest) / (seqs - 1)
        return [round(longest - k * step) for k in range(seqs)]
    if of.shape == LOGNORMAL:
        return _lognormal(seqs, mean)
    return [mean] * seqs


def _lognormal(seqs: int, mean: int) -> list[int]:
    """Quantiles in the middle of equal shares of a lognormal distribution, scaled to the mean."""
    normal = statistics.NormalDist(0, LOGNORMAL_SIGMA)
    drawn = [math.exp(normal.inv_cdf((k + 0.5) / seqs)) for k in range(seqs)]
    return [max(1, round(mean * value * seqs / sum(drawn))) for value in reversed(drawn)]


@dataclass(frozen=True)
class Sizes:
    """The sizes that one density runs over."""

    tokens: tuple[int, ...]
    unaligned_tokens: tuple[int, ...]
    seqs: tuple[int, ...]
    contexts: tuple[int, ...]
    uneven_seqs: tuple[int, ...]
    uneven_contexts: tuple[int, ...]
    chunks: tuple[int, ...]
    past_chunks: tuple[int, ...]
    pasts: tuple[int, ...]
    mixed_seqs: tuple[int, ...]
    reduce_tokens: tuple[int, ...]


SIZES: dict[str, Sizes] = {
    "quick": Sizes(
        tokens=(1, 16, 128, 512),
        unaligned_tokens=(),
        seqs=(1, 8),
        contexts=(128, 1024),
        uneven_seqs=(8,),
        uneven_contexts=(1024,),
        chunks=(64, 256),
        past_chunks=(64,),
        pasts=(1024,),
        mixed_seqs=(8,),
        reduce_tokens=(1, 64),
    ),
    "minimal": Sizes(
        tokens=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
        unaligned_tokens=(257, 513, 1025),
        seqs=(1, 4, 16, 64, 256),
        contexts=(128, 1024, 4096, 16384),
        uneven_seqs=(8, 32, 128),
        uneven_contexts=(1024, 4096),
        chunks=(128, 512, 2048, 8192, 16384),
        past_chunks=(64, 256, 1024),
        pasts=(2048, 8192, 32768),
        mixed_seqs=(8, 64),
        reduce_tokens=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192),
    ),
    "dense": Sizes(
        tokens=(
            *(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512),
            *(640, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384),
        ),
        unaligned_tokens=(33, 65, 129, 193, 257, 385, 513, 769, 1025, 2049),
        seqs=(1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256),
        contexts=(128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
        uneven_seqs=(2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256),
        uneven_contexts=(512, 1024, 2048, 4096, 8192),
        chunks=(16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        past_chunks=(16, 64, 128, 256, 512, 1024, 2048, 4096),
        pasts=(512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
        mixed_seqs=(8, 32, 64, 128, 256),
        reduce_tokens=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    ),
}


def cases(model: Model, tp: int, density: str = "minimal") -> list[Case]:
    """All cases of a model on one rank of `tp`, the cheap ones first.

    Raises
    ------
    InputError : for a model whose attention is latent, which the kernels here do not have.
    """
    model.check_tp(tp)
    if model.latent is not None:
        raise InputError(
            f"{model.name}: profiling covers attention with keys and values per head, not "
            "latent attention; choose another model."
        )
    sizes = SIZES[density]
    found = [
        *_products(model, tp, sizes),
        *_small_kernels(model, tp, sizes),
        *_decodes(model, tp, sizes),
        *_prefills(model, tp, sizes),
        *_mixed(model, tp, sizes),
    ]
    if tp > 1:
        found += [
            case("all_reduce", tp=tp, elements=m * model.hidden_size) for m in sizes.reduce_tokens
        ]
    return list(dict.fromkeys(found))


def _products(model: Model, tp: int, sizes: Sizes) -> Iterator[Case]:
    widths = [(n, k) for _, n, k, _ in model.gemm_shapes(tp)]
    widths.append((-(-model.vocab_size // tp), model.hidden_size))
    tokens = sizes.tokens
    if model.weight_dtype != "bf16":  # their kernels jump where tiles are not full
        tokens = tuple(sorted({*tokens, *sizes.unaligned_tokens}))
    for (n, k), m in itertools.product(widths, tokens):
        yield case("gemm", m=m, n=n, k=k)


def _small_kernels(model: Model, tp: int, sizes: Sizes) -> Iterator[Case]:
    for m in sizes.tokens:
        yield case("norm", m=m, n=model.hidden_size)
        if model.mlp_matrices == 3 and model.intermediate_size:
            yield case("activation", m=m, n=2 * model.intermediate_size // tp)


def _heads(model: Model, tp: int) -> dict[str, int]:
    return {
        "num_heads": model.num_heads // tp,
        "num_kv_heads": model.kv_heads_per_rank(tp),
        "head_dim": model.head_dim,
    }


def _decodes(model: Model, tp: int, sizes: Sizes) -> Iterator[Case]:
    heads = _heads(model, tp)
    for seqs, context in itertools.product(sizes.seqs, sizes.contexts):
        yield case("decode", **heads, seqs=seqs, context=context, longest=context, shape=EVEN)
    for seqs, context in itertools.product(sizes.uneven_seqs, sizes.uneven_contexts):
        for shape, longest in (
            (EVEN, context),
            (ONE_LONG, 2 * context),
            (SPREAD, context * 9 // 5),
            (LOGNORMAL, _lognormal(seqs, context)[0]),
        ):
            yield case("decode", **heads, seqs=seqs, context=context, longest=longest, shape=shape)


def _prefills(model: Model, tp: int, sizes: Sizes) -> Iterator[Case]:
    heads = _heads(model, tp)
    for chunk in sizes.chunks:
        yield case("prefill", **heads, seqs=1, chunk=chunk, past=0)
        if chunk <= 2048:
            yield case("prefill", **heads, seqs=4, chunk=chunk, past=0)
    for chunk, past in itertools.product(sizes.past_chunks, sizes.pasts):
        yield case("prefill", **heads, seqs=1, chunk=chunk, past=past)


def _mixed(model: Model, tp: int, sizes: Sizes) -> Iterator[Case]:
    heads = _heads(model, tp)
    for seqs, chunk in itertools.product(sizes.mixed_seqs, sizes.past_chunks):
        for past in (0, sizes.pasts[-1] // 4):
            yield case("mixed", **heads, seqs=seqs, context=1024, chunk=chunk, past=past)
