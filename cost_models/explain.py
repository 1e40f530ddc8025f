"""A calibrated step operation by operation, and what sets its pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cost_models import forms, kernel
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.step_cost import Batch, OpTime

if TYPE_CHECKING:
    from cost_models.roofline import RooflineForm

GRID = "measured grid"
ROOFLINE = "roofline fit"
FIT = "fit per split of heads"
TABLE = "measured table"
STEPS = "fitted to engine steps"
ASSUMED = "assumed: 3 µs a kernel, bytes at 0.8 of the bandwidth"
ASSUMED_SAMPLER = "assumed: passes over the logits at 0.8 of the bandwidth"


def step_ops(form: RooflineForm, batch: Batch) -> tuple[OpTime, ...]:
    """Operations of a step on one rank, with their FLOPs and the bytes they must move."""
    tables = form.tables(batch.tokens, batch.scheduled_seqs)
    model, tokens = form.model, batch.tokens
    if batch.prefill_tokens == 0 and tokens < len(tables.decode_tokens_s):
        tokens = int(form.captured[form.captured >= tokens][0])  # a graph runs at its own size
    shapes = {name: (n, k, count) for name, n, k, count in model.gemm_shapes(form.tp)}
    gemm_source = GRID if form.calibrations[model.weight_dtype].gemm.permille else ROOFLINE
    width = DTYPE_BYTES[model.weight_dtype]

    ops = []
    for name, seconds in form.token_ops([tokens]).items():
        if not seconds[0]:
            continue
        flops: float | None = None
        size: float | None = None
        source = gemm_source
        if name in shapes:
            n, k, layers = shapes[name]
            flops = 2.0 * layers * tokens * n * k
            size = layers * (n * k * width + tokens * (k * width + n * forms.BF16_BYTES))
        elif name == "experts" and form.experts is not None:
            together = form.split.dp * tokens
            flops, size = form.experts.flops(together), form.experts.weight_bytes(together)
            source = form.experts.source
        elif name == "router" and form.experts is not None:
            of = form.experts.experts
            flops = 2.0 * of.layers * tokens * of.num_experts * model.hidden_size
            size = of.layers * of.num_experts * model.hidden_size * float(forms.BF16_BYTES)
        elif name == "all_reduce":
            source = TABLE
        elif name in ("expert exchange", "sends to next stage"):
            source = form.messages.source
        elif name == "eager launches":
            source = STEPS
        else:
            size = float(form.elementwise_bytes(tokens))
            source = ROOFLINE if form.calibrations["bf16"].elementwise else ASSUMED
        ops.append(OpTime(name, float(seconds[0]), flops, size, source))

    if batch.decode_seqs:
        ops.append(_decode_attention(form, batch, tables))
    if batch.prefill_seqs:
        ops.append(_prefill_attention(form, batch, tables))

    seqs = batch.scheduled_seqs
    for name, seconds in form.logits_ops([seqs]).items():
        flops = size = None
        source = TABLE
        if name == "lm_head":
            n, k = form.vocab, model.hidden_size
            flops, source = 2.0 * seqs * n * k, gemm_source
            size = (n * k + seqs * (n + k)) * forms.BF16_BYTES
        elif name == "sampler":
            size, source = form.sampler_bytes(seqs), ASSUMED_SAMPLER
        ops.append(OpTime(name, float(seconds[0]), flops, size, source))
    return tuple(ops)


def _decode_attention(form: RooflineForm, batch: Batch, tables: kernel.CostTables) -> OpTime:
    model = form.model
    coef = tables.coef.copy()
    coef[kernel.MIXED_SAVED] = 0.0  # what a shared launch saves is the chunks' gain
    apart = tables._replace(coef=coef)
    return OpTime(
        "decode attention",
        _difference_s(apart, batch, decode_attention_s=tables.decode_attention_s[:0]),
        form.attention.decode_flops_per_token * batch.decode_context,
        float(batch.decode_context * model.kv_bytes_per_token(form.tp)),
        form.attention.decode_source,
    )


def _prefill_attention(form: RooflineForm, batch: Batch, tables: kernel.CostTables) -> OpTime:
    coef, model = tables.coef.copy(), form.model
    coef[kernel.PREFILL_BASE : kernel.PREFILL_PER_PAST + 1] = 0.0
    return OpTime(
        "prefill attention",
        _difference_s(tables, batch, coef=coef),
        form.attention.prefill_flops_per_pair * batch.prefill_area,
        float(batch.prefill_kv * model.kv_bytes_per_token(form.tp)),
        FIT,
    )


def _difference_s(tables: kernel.CostTables, batch: Batch, **without: NDArray[np.float64]) -> float:
    """What one part adds to the step: the price with it less the price without."""
    gpu_s, _ = kernel.step_time(tables, *batch)
    rest_s, _ = kernel.step_time(tables._replace(**without), *batch)
    return float(gpu_s - rest_s)
