"""Fits of one operation each: positive parameters, log-ratio residuals, soft-L1 loss.

Rates are bounded by the datasheet; a parameter that ends at a bound is reported, since
the data did not decide it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from cost_models import forms
from cost_models.catalog import Gpu
from cost_models.catalog.model_shape import DTYPE_BYTES

Array = NDArray[np.float64]
Bounds = dict[str, tuple[float, float, float]]  # name: (lowest, first guess, highest)

SIGNIFICANT_DIGITS = 5
SLOWEST_LAUNCH_S = 5e-5  # of an attention kernel
OUTLIER_SCALE = 0.1  # log-ratios beyond this weigh linearly, not squared


UNDECIDED = 0.5  # standard error of a parameter's logarithm from which data do not decide it


class Fit(NamedTuple):
    """What a fit found.

    Attributes
    ----------
    parameters : the values.
    at_bound : names of those at a bound of what is possible.
    undecided : names of those that the rows leave open by half or more.
    """

    parameters: dict[str, float]
    at_bound: list[str]
    undecided: list[str]


def column(table: pd.DataFrame, name: str) -> Array:
    """A column as float64."""
    return table[name].to_numpy(dtype=np.float64)


def gemm_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Products that a fit is made of: those of models, not of slivers."""
    return table[(table["n"] >= 512) & (table["k"] >= 512) & (table["m"] <= 16384)]


def decode_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Decodes that a fit is made of."""
    return table[(table["seqs"] <= 1024) & (table["context"] >= 16)]


def prefill_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Prefills that a fit is made of: few chunks at a time, as schedulers give them."""
    return table[(table["seqs"] <= 16) & (table["chunk"] >= 16)]


def groups(table: pd.DataFrame, *names: str) -> Iterator[tuple[list[int], pd.DataFrame]]:
    """Rows with the same values in the named integer columns, in rising order."""
    for key, rows in table.groupby(list(names)):
        yield [int(value) for value in cast(tuple[Any, ...], key)], rows


def error_summary(predicted: Array, measured: Array) -> dict[str, float]:
    """Mean absolute, 95th percentile and mean signed error, in per cent."""
    error = predicted / measured - 1
    return {
        "rows": len(error),
        "mape_pct": round(100 * float(np.mean(np.abs(error))), 2),
        "p95_pct": round(100 * float(np.quantile(np.abs(error), 0.95)), 2),
        "bias_pct": round(100 * float(np.mean(error)), 2),
    }


def fit(predict: Callable[[dict[str, float]], Array], measured: Array, bounds: Bounds) -> Fit:
    """Parameters that bring `predict` nearest to `measured`, and which of them are doubtful."""
    names = list(bounds)
    low, guess, high = (np.log([bounds[name][i] for name in names]) for i in range(3))

    def parameters(theta: Array) -> dict[str, float]:
        return dict(zip(names, np.exp(theta), strict=True))

    def residuals(theta: Array) -> Array:
        result: Array = np.log(predict(parameters(theta)) / measured)
        return result

    found = least_squares(
        residuals, guess, bounds=(low, high), loss="soft_l1", f_scale=OUTLIER_SCALE
    )
    at_bound = [
        name
        for name, value, lowest, highest in zip(names, found.x, low, high, strict=True)
        if min(value - lowest, highest - value) < 1e-3 * (highest - lowest)
    ]
    rounded = {
        name: float(f"{value:.{SIGNIFICANT_DIGITS}g}")
        for name, value in parameters(found.x).items()
    }
    _, singular, turned = np.linalg.svd(found.jac, full_matrices=False)
    freedom = max(1, len(measured) - len(names))
    scatter = (turned / np.maximum(singular, 1e-12)[:, None]) ** 2
    error = np.sqrt(scatter.sum(axis=0) * 2 * found.cost / freedom)
    undecided = [name for name, size in zip(names, error, strict=True) if size > UNDECIDED]
    return Fit(rounded, at_bound, undecided)


def fit_gemm(table: pd.DataFrame, gpu: Gpu, dtype: str) -> Fit:
    """The roofline of matrix products, from those of 512 rows and columns and more."""
    used = gemm_rows(table)
    m, n, k = (column(used, name) for name in ("m", "n", "k"))
    bandwidth, peak = gpu.memory_bandwidth_bytes_per_s, gpu.peak_flops(dtype)
    bounds: Bounds = {
        "launch_s": (1e-7, 3e-6, 1e-4),
        "weight_bytes_per_s": (0.1 * bandwidth, 0.8 * bandwidth, bandwidth),
        # Activations may come from the L2 cache, which is faster than memory.
        "activation_bytes_per_s": (0.05 * bandwidth, 0.8 * bandwidth, 4 * bandwidth),
        "flops_per_s": (0.1 * peak, 0.75 * peak, peak),
        "overlap": (1.0, 3.0, 20.0),
    }
    width = DTYPE_BYTES[dtype]
    return fit(lambda p: forms.gemm_s(p, m, n, k, width), column(used, "seconds"), bounds)


def fit_decode(
    table: pd.DataFrame, gpu: Gpu, kv_dtype: str, slowest_launch_s: float = SLOWEST_LAUNCH_S
) -> Fit:
    """The roofline of decode attention for one head size."""
    used = decode_rows(table)
    inputs = decode_inputs(used, kv_dtype)
    bandwidth = gpu.memory_bandwidth_bytes_per_s
    bounds: Bounds = {
        "launch_s": (1e-6, 1e-5, slowest_launch_s),
        "kv_bytes_per_s": (0.05 * bandwidth, 0.8 * bandwidth, bandwidth),
        "per_seq_head_s": (1e-11, 2e-8, 1e-6),
    }
    return fit(lambda p: forms.decode_attention_s(p, **inputs), column(used, "seconds"), bounds)


def decode_inputs(table: pd.DataFrame, kv_dtype: str) -> dict[str, Any]:
    """The arguments of `forms.decode_attention_s`."""
    return {
        "seqs": column(table, "seqs"),
        "context": column(table, "context"),
        "num_kv_heads": column(table, "num_kv_heads"),
        "head_dim": column(table, "head_dim"),
        "kv_bytes": DTYPE_BYTES[kv_dtype],
    }


def prefill_inputs(table: pd.DataFrame) -> dict[str, Any]:
    """The arguments of `forms.prefill_attention_s` for uniform chunks, with or without a past."""
    seqs, chunk = column(table, "seqs"), column(table, "chunk")
    past = column(table, "past") if "past" in table else 0.0
    return {
        "seqs": seqs,
        "tokens": seqs * chunk,
        "area": seqs * chunk * (past + chunk / 2),
        "mean_kv": chunk,
        "num_heads": column(table, "num_heads"),
        "head_dim": column(table, "head_dim"),
    }


def fit_prefill(table: pd.DataFrame, gpu: Gpu, slowest_launch_s: float = SLOWEST_LAUNCH_S) -> Fit:
    """Prefill attention of one split of heads, from up to 16 chunks of 16 tokens and more."""
    used = prefill_rows(table)
    inputs = prefill_inputs(used)
    peak = gpu.peak_flops("bf16")
    bounds: Bounds = {
        "launch_s": (1e-6, 1e-5, slowest_launch_s),
        "flops_per_s": (0.05 * peak, 0.7 * peak, peak),
        "per_token_head_s": (1e-13, 1e-10, 1e-8),
        "per_seq_head_s": (1e-11, 1e-8, 1e-6),
        "per_kv_s": (1e-10, 1e-8, 3e-7),
    }
    return fit(lambda p: forms.prefill_attention_s(p, **inputs), column(used, "seconds"), bounds)
