"""The calibrated form: a step as the sum of its operations on one GPU, or one of each stage.

Every operation is a roofline fitted to measured kernels, times measured / roofline where a
grid of it is known; see `forms` and `grids`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models import cuda_graphs, forms, grids, kernel, latent
from cost_models.attention import Attention
from cost_models.calibration import Calibration, Elementwise
from cost_models.catalog import Gpu, HostTime, Model
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.collectives import Collectives, interpolate
from cost_models.effects import Effects
from cost_models.errors import InputError
from cost_models.experts import ExpertTime
from cost_models.explain import step_ops
from cost_models.kernel import CostTables
from cost_models.latent import LatentDtype
from cost_models.parallelism import Parallelism
from cost_models.step_cost import Batch, OpTime

Array = NDArray[np.float64]

CONTEXT_KNOTS = 18  # mean contexts 1, 2, 4 ... 131,072
MANY_TOKENS = 4096
SAMPLER_BYTES_PER_LOGIT = 12  # about three passes over float32 logits

Ops = Callable[[ArrayLike], dict[str, Array]]


def _totals(ops: Ops, size: int) -> Array:
    """Sum of the operations for 0 (nothing) to `size`."""
    result = np.zeros(size + 1)
    for seconds in ops(np.arange(1, size + 1)).values():
        result[1:] += seconds
    return result


class RooflineForm:
    """Step times of one model on GPUs of one type.

    With data parallelism, those of an engine while all others have the same step to do; with
    pipeline parallelism, those of a step that is alone on its way through the stages.

    Parameters
    ----------
    model, gpu : from the catalogue.
    split : how the GPUs of a replica share the model.
    calibrations : coefficients of the GPU under the engine, by data type: bf16, that of the
        weights and that of the KV cache.
    host : the engine's own time.
    max_num_seqs : the engine's limit, which decides the captured CUDA-graph sizes.
    effects : what real steps take beyond their kernels.
    async_scheduling : the host works while the GPU does.

    Raises
    ------
    InputError : when the model does not split so, or its all-reduce is not measured.
    """

    def __init__(
        self,
        model: Model,
        gpu: Gpu,
        split: Parallelism,
        calibrations: Mapping[str, Calibration],
        host: HostTime,
        max_num_seqs: int,
        effects: Effects,
        async_scheduling: bool = False,
    ):
        split.check(model)
        self.model, self.gpu, self.split = model, gpu, split
        self.tp = tp = split.tp
        self.calibrations, self.host = calibrations, host
        self.effects, self.async_scheduling = effects, async_scheduling
        self.captured = cuda_graphs.captured_sizes(max_num_seqs, gpu.compute_capability)
        self.vocab = -(-model.vocab_size // tp)
        self.bandwidth = gpu.memory_bandwidth_bytes_per_s * forms.ELEMENTWISE_BANDWIDTH_SHARE
        self.small = calibrations["bf16"].elementwise or Elementwise(
            launch_s=forms.ELEMENTWISE_LAUNCH_S, bytes_per_s=self.bandwidth
        )
        self.reduce_table = self._all_reduce_table()
        self.latent: LatentDtype | None = None
        self.attention = self._attention()
        self.experts: ExpertTime | None = None
        if model.experts is not None:
            engine = calibrations["bf16"].engine
            self.experts = ExpertTime(model.experts, model.hidden_size, split, gpu.name, engine)
        self.messages = Collectives(gpu)

    def _attention(self) -> Attention:
        model, tp = self.model, self.tp
        if model.latent is None:
            of = self.calibrations[model.kv_dtype]
            return Attention(model, tp, of.decode, of.prefill, self.effects)
        self.latent = latent.load(self.gpu.name, self.calibrations["bf16"].engine, model.kv_dtype)
        # A chunk rebuilds keys and values of what it finds cached (vLLM's MLA backends,
        # _compute_prefill_context): the product that makes them, at the pace of many tokens.
        _, n, k, _ = next(s for s in model.gemm_shapes(tp) if s[0] == "kv_b_proj")
        rebuilt_s = float(self.gemm_s([MANY_TOKENS], n, k, model.weight_dtype)[0]) / MANY_TOKENS
        return Attention(
            model, tp, [self.latent.decode], self.latent.prefill, self.effects, rebuilt_s
        )

    @property
    def provenance(self) -> str:
        """Where the numbers come from, and how far a kernel left out of the fit was off."""
        weights = self.calibrations[self.model.weight_dtype]
        told = weights.report.get("estimated") or self._kernel_errors(weights)
        told_by = (v for c in self.calibrations.values() for v in c.versions.values())
        versions = sorted({one for several in told_by for one in several.split(" and ")})
        on = [n for n in self.effects.names if n == "eager_steps" or self.attention.feels(n)]
        beyond = f"; beyond kernels: {', '.join(on)} ({self.effects.source})" if on else ""
        return (
            f"calibrated: {weights.gpu}, {weights.engine} {' and '.join(versions)} kernels, "
            f"{weights.dtype} weights and {self.model.kv_dtype} KV cache, from {weights.source}; "
            f"{told}{beyond}\n"
            f"host: {self.host.per_step_s * 1e3:g} ms/step + {self.host.per_seq_s * 1e3:g} "
            f"ms/sequence, {self._host_mode} ({self.host.source})"
        )

    def _kernel_errors(self, weights: Calibration) -> str:
        gemm = weights.report["gemm"]
        if self.latent is not None:
            report, name = self.latent.report, "decode attention"
        else:
            report = self.calibrations[self.model.kv_dtype].report
            name = f"decode attention, head_dim {self.attention.decode.head_dim}"
        decode = report[name]
        errors = {
            "GEMM": gemm.get("left-out widths", gemm["roofline"]),
            "decode attention": decode.get("left-out sizes", decode["roofline"]),
            "prefill attention": report["prefill attention"]["fit"],
        }
        if self.experts is not None:
            errors["experts"] = self.experts.error
        told = ", ".join(f"{name} {error['mape_pct']:.1f} %" for name, error in errors.items())
        return f"mean error of single kernels: {told}"

    @property
    def _host_mode(self) -> str:
        if self.async_scheduling:
            return f"while the GPU works, {self.host.gap_s * 1e3:g} ms between steps"
        return "added to the GPU's"

    def _all_reduce_table(self) -> tuple[list[int], list[float]] | None:
        """Elements and seconds of this group's all-reduce; None for one GPU."""
        if self.tp == 1:
            return None
        measured = self.calibrations["bf16"].all_reduce
        for table in measured:
            if table.tp == self.tp:
                return table.elements, table.seconds
        known = ", ".join(str(table.tp) for table in measured)
        raise InputError(
            f"tensor_parallel {self.tp}: all-reduce on {self.gpu.name} is measured for {known} "
            "GPUs only; choose one of these or 1."
        )

    def gemm_s(self, m: ArrayLike, n: int, k: int, dtype: str) -> Array:
        """Seconds of one matrix product for each number of tokens."""
        rows = np.asarray(m, dtype=np.float64)
        gemm = self.calibrations[dtype].gemm
        result: Array = forms.gemm_s(gemm.roofline, rows, n, k, DTYPE_BYTES[dtype])
        return result * grids.gemm_ratio(gemm, rows, n, k)

    def all_reduce_s(self, elements: ArrayLike) -> Array:
        """Seconds of one all-reduce; beyond the table along its last piece."""
        size = np.asarray(elements, dtype=np.float64)
        if self.reduce_table is None:
            return np.zeros_like(size)
        return interpolate(*self.reduce_table, size)

    def elementwise_bytes(self, m: ArrayLike) -> Array:
        """Bytes of norms with residuals (read 2, write 2) and gated activations."""
        model = self.model
        per_token = 2 * 4 * model.hidden_size * model.num_layers + model.hidden_size
        for name, n, _, layers in model.gemm_shapes(self.tp):
            if name.endswith("gate_up_proj"):  # reads both halves, writes one
                per_token += layers * n * 3 // 2
            elif name.endswith("up_proj"):
                per_token += layers * n * 2
        result: Array = np.asarray(m, dtype=np.float64) * per_token * forms.BF16_BYTES
        return result

    def token_ops(self, m: ArrayLike) -> dict[str, Array]:
        """Seconds of each operation that depends on the step's tokens alone."""
        return self._token_ops(m, self.shared_ops(self.split.dp * np.asarray(m, np.float64)))

    def _token_ops(self, m: ArrayLike, shared: dict[str, Array]) -> dict[str, Array]:
        tokens = np.asarray(m, dtype=np.float64)
        layers, dtype = self.model.num_layers, self.model.weight_dtype
        ops = {
            name: count * self.gemm_s(tokens, n, k, dtype)
            for name, n, k, count in self.model.gemm_shapes(self.tp)
        }
        hidden = self.model.hidden_size
        if self.experts is not None:
            of = self.experts.experts
            ops["router"] = of.layers * self.gemm_s(tokens, of.num_experts, hidden, "bf16")
            ops |= shared
        if self.tp > 1:
            ops["all_reduce"] = (2 * layers + 1) * self.all_reduce_s(tokens * hidden)
        if self.split.pp > 1:
            handed_on_s = self.messages.hand_on_s(self.tp, 2 * tokens * hidden)  # and residual
            ops["sends to next stage"] = (self.split.pp - 1) * handed_on_s
        launches_s = (3 * layers + 1) * self.small.launch_s
        ops["norms and activation"] = (
            launches_s + self.elementwise_bytes(tokens) / self.small.bytes_per_s
        )
        if self.effects.eager_steps is not None:
            ops["eager launches"] = self._eager_s(tokens, np.sum(list(ops.values()), axis=0))
        return ops

    def shared_ops(self, tokens: ArrayLike) -> dict[str, Array]:
        """Seconds of what all data-parallel engines do together, by all their tokens."""
        if self.experts is None:
            return {}
        together = np.asarray(tokens, dtype=np.float64)
        of = self.experts.experts
        ops = {"experts": of.layers * self.experts.layer_s(together)}
        if self.split.dp > 1:  # hidden states with the router's logits, and their sums back
            elements = together * (self.model.hidden_size + of.num_experts)
            ops["expert exchange"] = of.layers * self.messages.exchange_s(self.split.dp, elements)
        return ops

    def _eager_s(self, tokens: Array, graph_s: Array) -> Array:
        """What steps beyond the largest graph take longer than in one."""
        eager = self.effects.eager_steps
        assert eager is not None
        layers = self.model.num_layers
        reduces_s = (2 * layers + 1) * eager.all_reduce_s if self.tp > 1 else 0.0
        longer = np.maximum(eager.slowdown * graph_s + reduces_s, layers * eager.launch_s_per_layer)
        result: Array = np.where(tokens > eager.above_tokens, longer - graph_s, 0.0)
        return result

    def logits_ops(self, seqs: ArrayLike) -> dict[str, Array]:
        """Seconds of each operation that depends on the scheduled sequences alone."""
        n_s = np.asarray(seqs, dtype=np.float64)
        logits = n_s * self.model.vocab_size
        ops = {"lm_head": self.gemm_s(n_s, self.vocab, self.model.hidden_size, "bf16")}
        if self.tp > 1:  # a gather moves half of what an all-reduce of its result does
            ops["logits gather"] = self.all_reduce_s(logits / 2)
        ops["sampler"] = logits * SAMPLER_BYTES_PER_LOGIT / self.bandwidth
        return ops

    def sampler_bytes(self, seqs: int) -> float:
        """Bytes that the sampler reads and writes."""
        return float(seqs * self.model.vocab_size * SAMPLER_BYTES_PER_LOGIT)

    @property
    def compute_bound_from_tokens(self) -> int:
        """Tokens per step from which the layers' products take longer than their weights."""
        roofline = self.calibrations[self.model.weight_dtype].gemm.roofline
        seconds_per_byte = 1 / roofline["weight_bytes_per_s"]
        width = DTYPE_BYTES[self.model.weight_dtype]
        return round(width * seconds_per_byte * roofline["flops_per_s"] / 2)

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """Tables for `kernel.step_time`; a line through twice the end carries on beyond."""
        return self._tables(max_tokens, max_seqs, self.token_ops)

    def apart(self, max_tokens: int, max_seqs: int) -> tuple[CostTables, Array, Array]:
        """Tables of what each data-parallel engine does for itself, and what all do together.

        The latter in seconds by the tokens of the engine with most, to which a CUDA graph pads
        all of them, and by the tokens of all for steps beyond the largest graph.
        """
        own = self._tables(max_tokens, max_seqs, lambda m: self._token_ops(m, {}))
        padded = self.split.dp * cuda_graphs.padded_sizes(self.captured)
        even_s = np.sum(list(self.shared_ops(np.maximum(padded, 1)).values()), axis=0)
        return own, even_s, _totals(self.shared_ops, self.split.dp * max_tokens)

    def _tables(self, max_tokens: int, max_seqs: int, token_ops: Ops) -> CostTables:
        largest = max(max_tokens, int(self.captured[-1]))
        tokens_s = _totals(token_ops, largest)
        logits_s = _totals(self.logits_ops, max_seqs)
        padded = cuda_graphs.padded_sizes(self.captured)

        seqs = np.arange(1, max_seqs + 1)
        attention_s = np.zeros((max_seqs + 1, CONTEXT_KNOTS + 1))
        attention_s[1:, :-1] = self.attention.decode_s(seqs, 2.0 ** np.arange(CONTEXT_KNOTS))
        graphs = np.where(seqs < len(padded), padded[np.minimum(seqs, len(padded) - 1)], seqs)
        attention_s[1:, -1] = self.attention.longest_s_per_token(graphs)
        coef = self.attention.coefficients()
        for base, slope, table, ops in (
            (kernel.TOKENS_BASE, kernel.TOKENS_SLOPE, tokens_s, token_ops),
            (kernel.SEQS_BASE, kernel.SEQS_SLOPE, logits_s, self.logits_ops),
        ):
            end = len(table) - 1
            twice_s = sum(float(seconds[0]) for seconds in ops([2 * end]).values())
            coef[slope] = (twice_s - table[end]) / end
            coef[base] = table[end] - coef[slope] * end
        coef[kernel.HOST_BASE] = self.host.per_step_s
        coef[kernel.HOST_PER_SEQ] = self.host.per_seq_s
        coef[kernel.HOST_GAP] = self.host.gap_s if self.async_scheduling else 0.0
        return CostTables(
            tokens_s=tokens_s,
            decode_tokens_s=tokens_s[padded],
            logits_s=logits_s,
            decode_attention_s=attention_s,
            coef=coef,
        )

    def ops(self, batch: Batch) -> tuple[OpTime, ...]:
        """The step, operation by operation."""
        return step_ops(self, batch)
