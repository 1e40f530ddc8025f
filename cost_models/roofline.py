"""The calibrated form: a step as the sum of its operations on one GPU.

Every operation is a roofline fitted to measured kernels, times measured / roofline where a
grid of it is known; see `forms` and `grids`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cost_models import cuda_graphs, forms, grids, kernel
from cost_models.calibration import Calibration
from cost_models.catalog import Gpu, HostTime, Model
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.errors import InputError
from cost_models.explain import step_ops
from cost_models.kernel import CostTables
from cost_models.step_cost import Batch, OpTime

Array = NDArray[np.float64]

CONTEXT_KNOTS = 18  # mean contexts 1, 2, 4 ... 131,072
SAMPLER_BYTES_PER_LOGIT = 12  # about three passes over float32 logits

Ops = Callable[[ArrayLike], dict[str, Array]]


def _totals(ops: Ops, size: int) -> Array:
    """Sum of the operations for 0 (nothing) to `size`."""
    result = np.zeros(size + 1)
    for seconds in ops(np.arange(1, size + 1)).values():
        result[1:] += seconds
    return result


class RooflineForm:
    """Step times of one model, tensor-parallel over `tp` GPUs of one type.

    Parameters
    ----------
    model, gpu : from the catalogue.
    tp : tensor-parallel size.
    calibration : coefficients of the GPU under the engine.
    host : the engine's own time.
    max_num_seqs : the engine's limit, which decides the captured CUDA-graph sizes.

    Raises
    ------
    InputError : when the heads do not split over `tp`, or its all-reduce is not measured.
    """

    def __init__(
        self,
        model: Model,
        gpu: Gpu,
        tp: int,
        calibration: Calibration,
        host: HostTime,
        max_num_seqs: int,
    ):
        model.check_tp(tp)
        self.model, self.gpu, self.tp = model, gpu, tp
        self.calibration, self.host = calibration, host
        self.captured = cuda_graphs.captured_sizes(max_num_seqs, gpu.compute_capability)
        self.heads = model.num_heads // tp
        self.kv_heads = model.kv_heads_per_rank(tp)
        self.vocab = -(-model.vocab_size // tp)
        self.bandwidth = gpu.memory_bandwidth_bytes_per_s * forms.ELEMENTWISE_BANDWIDTH_SHARE
        self.reduce_log = self._all_reduce_table()
        self.decode = min(
            calibration.decode,
            key=lambda entry: abs(np.log(entry.head_dim / model.head_dim)),
        )
        self.prefill = grids.nearest_heads(
            [fit for fit in calibration.prefill if fit.head_dim == self.decode.head_dim],
            self.heads,
            self.kv_heads,
        )

    @property
    def provenance(self) -> str:
        """Where the numbers come from, and how far a kernel left out of the fit was off."""
        report = self.calibration.report
        gemm, dim = report["gemm"], self.decode.head_dim
        decode = report[f"decode attention, head_dim {dim}"]
        errors = {
            "GEMM": gemm.get("left-out widths", gemm["roofline"]),
            "decode attention": decode.get("left-out sizes", decode["roofline"]),
            "prefill attention": report["prefill attention"]["fit"],
        }
        told = ", ".join(f"{name} {error['mape_pct']:.1f} %" for name, error in errors.items())
        versions = sorted(set(self.calibration.versions.values()))
        return (
            f"calibrated: {self.calibration.gpu}, {self.calibration.engine} "
            f"{' and '.join(versions)} kernels, {self.calibration.dtype}, from "
            f"{self.calibration.source}; mean error of single kernels: {told}\n"
            f"host: {self.host.per_step_s * 1e3:g} ms/step + {self.host.per_seq_s * 1e3:g} "
            f"ms/sequence ({self.host.source})"
        )

    def _all_reduce_table(self) -> tuple[Array, Array] | None:
        """Log of elements and seconds of this group's all-reduce; None for one GPU."""
        if self.tp == 1:
            return None
        for table in self.calibration.all_reduce:
            if table.tp == self.tp:
                return np.log(table.elements), np.log(table.seconds)
        known = ", ".join(str(table.tp) for table in self.calibration.all_reduce)
        raise InputError(
            f"tensor_parallel {self.tp}: all-reduce on {self.gpu.name} is measured for {known} "
            "GPUs only; choose one of these or 1."
        )

    def gemm_s(self, m: ArrayLike, n: int, k: int, dtype: str) -> Array:
        """Seconds of one matrix product for each number of tokens."""
        rows = np.asarray(m, dtype=np.float64)
        gemm = self.calibration.gemm
        result: Array = forms.gemm_s(gemm.roofline, rows, n, k, DTYPE_BYTES[dtype])
        return result * grids.gemm_ratio(gemm, rows, n, k)

    def all_reduce_s(self, elements: ArrayLike) -> Array:
        """Seconds of one all-reduce; beyond the table along its last piece."""
        size = np.asarray(elements, dtype=np.float64)
        if self.reduce_log is None:
            return np.zeros_like(size)
        log_elements, log_seconds = self.reduce_log
        within = np.exp(np.interp(np.log(np.maximum(size, 1)), log_elements, log_seconds))
        beyond = np.maximum(1.0, size / np.exp(log_elements[-1]))
        result: Array = within * beyond
        return result

    def elementwise_bytes(self, m: ArrayLike) -> Array:
        """Bytes of norms with residuals (read 2, write 2) and gated activations."""
        model = self.model
        ffn = (model.mlp_matrices if model.mlp_matrices == 3 else 2) * (
            model.intermediate_size // self.tp
        )
        per_token = model.num_layers * (2 * 4 * model.hidden_size + ffn) + model.hidden_size
        result: Array = np.asarray(m, dtype=np.float64) * per_token * forms.BF16_BYTES
        return result

    def token_ops(self, m: ArrayLike) -> dict[str, Array]:
        """Seconds of each operation that depends on the step's tokens alone."""
        tokens = np.asarray(m, dtype=np.float64)
        layers, dtype = self.model.num_layers, self.model.weight_dtype
        ops = {
            name: layers * self.gemm_s(tokens, n, k, dtype)
            for name, n, k in self.model.gemm_shapes(self.tp)
        }
        if self.tp > 1:
            ops["all_reduce"] = (2 * layers + 1) * self.all_reduce_s(
                tokens * self.model.hidden_size
            )
        launches_s = (3 * layers + 1) * forms.ELEMENTWISE_LAUNCH_S
        ops["norms and activation"] = launches_s + self.elementwise_bytes(tokens) / self.bandwidth
        return ops

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
        roofline = self.calibration.gemm.roofline
        seconds_per_byte = 1 / roofline["weight_bytes_per_s"]
        width = DTYPE_BYTES[self.model.weight_dtype]
        return round(width * seconds_per_byte * roofline["flops_per_s"] / 2)

    def decode_attention_s(self, seqs: ArrayLike, context: ArrayLike) -> Array:
        """Seconds of decode attention over all layers: rows `seqs`, columns `context`.

        More sequences or longer contexts never take less time; the noise of single
        measurements would say otherwise here and there.
        """
        rows = np.asarray(seqs, dtype=np.float64)
        columns = np.asarray(context, dtype=np.float64)
        layer_s = forms.decode_attention_s(
            self.decode.roofline,
            rows[:, None],
            columns[None, :],
            self.kv_heads,
            self.model.head_dim,
            DTYPE_BYTES[self.model.kv_dtype],
        )
        if self.decode.heads:
            heads = grids.nearest_heads(self.decode.heads, self.heads, self.kv_heads)
            layer_s = layer_s * grids.decode_ratio(self.decode, heads, rows, columns)
        rising = np.maximum.accumulate(np.maximum.accumulate(layer_s, axis=0), axis=1)
        result: Array = self.model.num_layers * rising
        return result

    def tables(self, max_tokens: int, max_seqs: int) -> CostTables:
        """Tables for `kernel.step_time`; a line through twice the end carries on beyond."""
        largest = max(max_tokens, int(self.captured[-1]))
        tokens_s = _totals(self.token_ops, largest)
        logits_s = _totals(self.logits_ops, max_seqs)
        padded = cuda_graphs.padded_sizes(self.captured)

        attention_s = np.zeros((max_seqs + 1, CONTEXT_KNOTS))
        attention_s[1:] = self.decode_attention_s(
            np.arange(1, max_seqs + 1), 2.0 ** np.arange(CONTEXT_KNOTS)
        )
        coef = self._attention_coefficients()
        for base, slope, table, ops in (
            (kernel.TOKENS_BASE, kernel.TOKENS_SLOPE, tokens_s, self.token_ops),
            (kernel.SEQS_BASE, kernel.SEQS_SLOPE, logits_s, self.logits_ops),
        ):
            end = len(table) - 1
            twice_s = sum(float(seconds[0]) for seconds in ops([2 * end]).values())
            coef[slope] = (twice_s - table[end]) / end
            coef[base] = table[end] - coef[slope] * end
        coef[kernel.HOST_BASE] = self.host.per_step_s
        coef[kernel.HOST_PER_SEQ] = self.host.per_seq_s
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

    def _attention_coefficients(self) -> Array:
        """Prefill attention over all layers, in the kernel's places."""
        fit, layers = self.prefill.fit, self.model.num_layers
        coef = np.zeros(kernel.NUM_COEF)
        coef[kernel.PREFILL_BASE] = layers * fit["launch_s"]
        coef[kernel.PREFILL_PER_AREA] = (
            layers * 4 * self.heads * self.model.head_dim / fit["flops_per_s"]
        )
        coef[kernel.PREFILL_PER_TOKEN] = layers * self.heads * fit["per_token_head_s"]
        coef[kernel.PREFILL_PER_SEQ] = layers * self.heads * fit["per_seq_head_s"]
        coef[kernel.PREFILL_PER_CHUNK] = layers * fit["per_kv_s"]
        return coef
