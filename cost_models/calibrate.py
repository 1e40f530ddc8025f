"""From a measured kernel profile to coefficients and a report of their own error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cost_models import checks, fit, forms
from cost_models.calibrate_batches import calibrate_effects, calibrate_small
from cost_models.calibration import AllReduce, Calibration, Decode, DecodeHeads, Gemm, Prefill
from cost_models.catalog import Gpu
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.importers.profile import Profile

Array = NDArray[np.float64]

# Token counts of a grid: the usual ones, and those that their neighbours would miss by more
# than this on average; fp8 products jump by up to 1.8 times from one count to the next.
GRID_TOKENS = frozenset(
    (
        *(1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768),
        *(1024, 1536, 2048, 3072, 4096, 8192, 16384),
    )
)
GRID_TOKENS_TOLERANCE = 0.1
GRID_SMALLEST_WIDTH = 256
GRID_SMALLEST_CONTEXT = 16
FEWEST_GRID_ROWS = 2000  # a smaller profile gets the roofline alone


def _fill(grid: Array) -> tuple[Array, int]:
    """Missing nodes take the value before them along the last axis, else along the first."""
    missing = int(np.isnan(grid).sum())
    for axis in (-1, 0):
        moved = np.moveaxis(grid, axis, 0)
        for i in range(1, len(moved)):
            moved[i] = np.where(np.isnan(moved[i]), moved[i - 1], moved[i])
        for i in range(len(moved) - 2, -1, -1):
            moved[i] = np.where(np.isnan(moved[i]), moved[i + 1], moved[i])
    return grid, missing


def _left_out(grid: Array, axis: int, nodes: list[int]) -> Array:
    """Ratio of each inner node to what its two neighbours along `axis` give for it."""
    moved = np.moveaxis(grid, axis, 0)
    ratios = []
    for i in range(1, len(nodes) - 1):
        share = np.log(nodes[i] / nodes[i - 1]) / np.log(nodes[i + 1] / nodes[i - 1])
        ratios.append(((1 - share) * moved[i - 1] + share * moved[i + 1]) / moved[i])
    result: Array = np.asarray(ratios).ravel()
    return result[~np.isnan(result)]


def _thin(grid: Array, nodes: list[int]) -> tuple[Array, list[int]]:
    """Leave out unusual nodes of the first axis, the least missed first, to the tolerance."""
    kept = list(range(len(nodes)))
    while True:
        logs = np.log([nodes[i] for i in kept])
        share = ((logs[1:-1] - logs[:-2]) / (logs[2:] - logs[:-2]))[:, None, None]
        below, here, above = grid[kept[:-2]], grid[kept[1:-1]], grid[kept[2:]]
        missed = np.abs(((1 - share) * below + share * above) / here - 1).mean(axis=(1, 2))
        usual = [nodes[i] in GRID_TOKENS for i in kept[1:-1]]
        missed = np.where(usual, np.inf, missed)
        least = int(np.argmin(missed))
        if missed[least] > GRID_TOKENS_TOLERANCE:
            return grid[kept], [nodes[i] for i in kept]
        del kept[least + 1]


def _permille(grid: Array) -> list[list[int]]:
    rows = np.rint(1000 * grid).astype(int).reshape(-1, grid.shape[-1])
    return [[int(value) for value in row] for row in rows]


def calibrate_gemm(table: pd.DataFrame, gpu: Gpu, dtype: str) -> tuple[Gemm, dict[str, Any]]:
    """Roofline and grid of the matrix products, and how well they fit."""
    roofline, at_bound, undecided = fit.fit_gemm(table, gpu, dtype)
    width = DTYPE_BYTES[dtype]
    used = table[(table["n"] >= GRID_SMALLEST_WIDTH) & (table["k"] >= GRID_SMALLEST_WIDTH)]
    used = used[used["m"] <= max(GRID_TOKENS)]
    rows, widths, depths = (fit.column(used, name) for name in ("m", "n", "k"))
    predicted = forms.gemm_s(roofline, rows, widths, depths, width)
    measured = fit.column(used, "seconds")
    wide = ((used["n"] >= 512) & (used["k"] >= 512)).to_numpy()
    report: dict[str, Any] = {
        "roofline": fit.error_summary(predicted[wide], measured[wide]),
        "at_bound": at_bound,
        "undecided": undecided,
        "weight_bandwidth_pct_of_peak": round(
            100 * roofline["weight_bytes_per_s"] / gpu.memory_bandwidth_bytes_per_s, 1
        ),
        "flops_pct_of_peak": round(100 * roofline["flops_per_s"] / gpu.peak_flops(dtype), 1),
    }
    if len(used) < FEWEST_GRID_ROWS:
        return Gemm(roofline=roofline), report

    used = used.assign(ratio=measured / predicted)
    m, n, k = (sorted(int(size) for size in used[name].unique()) for name in ("m", "n", "k"))
    index = pd.MultiIndex.from_product([m, n, k])
    values = used.set_index(["m", "n", "k"])["ratio"].reindex(index)
    grid = values.to_numpy(dtype=np.float64).reshape(len(m), len(n), len(k)).copy()
    errors = np.concatenate([_left_out(grid, axis, nodes) for axis, nodes in ((1, n), (2, k))])
    report["left-out widths"] = fit.error_summary(errors, np.ones_like(errors))
    grid, report["grid_nodes_filled"] = _fill(grid)
    grid, m = _thin(grid, m)
    return Gemm(roofline=roofline, m=m, n=n, k=k, permille=_permille(grid)), report


def _decode_grid(
    table: pd.DataFrame, predicted: Array, seqs: list[int], context: list[int]
) -> Array:
    ratio = table.assign(ratio=fit.column(table, "seconds") / predicted)
    index = pd.MultiIndex.from_product([seqs, context])
    values = ratio.set_index(["seqs", "context"])["ratio"].reindex(index)
    return values.to_numpy(dtype=np.float64).reshape(len(seqs), len(context)).copy()


def calibrate_decode(
    table: pd.DataFrame,
    gpu: Gpu,
    head_dim: int,
    kv_dtype: str,
    slowest_launch_s: float = fit.SLOWEST_LAUNCH_S,
) -> tuple[Decode, dict[str, Any]]:
    """Roofline and grids of decode attention with one head size."""
    roofline, at_bound, undecided = fit.fit_decode(table, gpu, kv_dtype, slowest_launch_s)
    used = table[table["context"] >= GRID_SMALLEST_CONTEXT]
    predicted = forms.decode_attention_s(roofline, **fit.decode_inputs(used, kv_dtype))
    share = roofline["kv_bytes_per_s"] / gpu.memory_bandwidth_bytes_per_s
    report: dict[str, Any] = {
        "roofline": fit.error_summary(predicted, fit.column(used, "seconds")),
        "at_bound": at_bound,
        "undecided": undecided,
        "kv_bandwidth_pct_of_peak": round(100 * share, 1),
    }
    if len(used) < FEWEST_GRID_ROWS // 4:
        return Decode(head_dim=head_dim, roofline=roofline), report

    seqs = sorted(int(size) for size in used["seqs"].unique())
    context = sorted(int(size) for size in used["context"].unique())
    heads, errors = [], []
    for (num_heads, num_kv_heads), rows in fit.groups(used, "num_heads", "num_kv_heads"):
        roof_s = forms.decode_attention_s(roofline, **fit.decode_inputs(rows, kv_dtype))
        grid = _decode_grid(rows, roof_s, seqs, context)
        errors += [_left_out(grid, 0, seqs), _left_out(grid, 1, context)]
        filled, _ = _fill(grid)
        heads.append(
            DecodeHeads(
                num_heads=num_heads,
                num_kv_heads=num_kv_heads,
                permille=_permille(filled),
            )
        )
    joined = np.concatenate(errors)
    report["left-out sizes"] = fit.error_summary(joined, np.ones_like(joined))
    return Decode(
        head_dim=head_dim, roofline=roofline, seqs=seqs, context=context, heads=heads
    ), report


def calibrate_prefill(
    table: pd.DataFrame, gpu: Gpu, slowest_launch_s: float = fit.SLOWEST_LAUNCH_S
) -> tuple[list[Prefill], dict[str, Any]]:
    """A fit of prefill attention for each split of heads."""
    fits, predicted, measured, used_flops = [], [], [], []
    at_bound: dict[str, int] = {}
    undecided: dict[str, int] = {}
    for (num_heads, num_kv_heads, head_dim), rows in fit.groups(
        table, "num_heads", "num_kv_heads", "head_dim"
    ):
        parameters, bounds, open_ = fit.fit_prefill(rows, gpu, slowest_launch_s)
        for name in open_:
            undecided[name] = undecided.get(name, 0) + 1
        for name in bounds:
            at_bound[name] = at_bound.get(name, 0) + 1
        used = fit.prefill_rows(rows)
        predicted.append(forms.prefill_attention_s(parameters, **fit.prefill_inputs(used)))
        measured.append(fit.column(used, "seconds"))
        used_flops.append(parameters["flops_per_s"])
        fits.append(
            Prefill(
                num_heads=num_heads,
                num_kv_heads=num_kv_heads,
                head_dim=head_dim,
                fit=parameters,
            )
        )
    report: dict[str, Any] = {
        "fit": fit.error_summary(np.concatenate(predicted), np.concatenate(measured)),
        "fits_at_bound": at_bound,
        "fits_undecided": undecided,
        "median_flops_pct_of_peak": round(
            100 * float(np.median(used_flops)) / gpu.peak_flops("bf16"), 1
        ),
    }
    return fits, report


def all_reduce_tables(table: pd.DataFrame) -> list[AllReduce]:
    """The measured all-reduces, one table per group size."""
    return [
        AllReduce(
            tp=tp,
            elements=[int(size) for size in rows["elements"]],
            seconds=[float(f"{value:.4g}") for value in rows["seconds"]],
        )
        for (tp,), rows in fit.groups(table, "tp")
    ]


def calibrate(profile: Profile, gpu: Gpu) -> Calibration:
    """Coefficients of a profile; the same profile gives the same bytes.

    Parameters
    ----------
    profile : measured kernels of one GPU, engine and weight data type.
    gpu : its datasheet, which bounds the fits.
    """
    gemm, gemm_report = calibrate_gemm(profile.gemm, gpu, profile.dtype)
    report: dict[str, Any] = {"gemm": gemm_report}
    decodes = []
    for (head_dim,), rows in fit.groups(profile.decode, "head_dim"):
        decode, report[f"decode attention, head_dim {head_dim}"] = calibrate_decode(
            rows, gpu, head_dim, profile.dtype
        )
        decodes.append(decode)
    prefills: list[Prefill] = []
    if not profile.prefill.empty:
        prefills, report["prefill attention"] = calibrate_prefill(profile.prefill, gpu)
    found = calibrate_effects(profile, gpu, decodes, prefills)
    if found is not None:
        effects, report["beyond even batches"] = found
    else:
        effects = None
    elementwise = None
    if not profile.small.empty:
        elementwise, report["norms and activations"] = calibrate_small(profile.small, gpu)
    report["rejected_rows"] = dict(sorted(profile.rejected.items()))
    fitted = Calibration(
        schema_version=1,
        gpu=profile.gpu,
        engine=profile.engine,
        dtype=profile.dtype,
        versions=profile.versions,
        source=profile.source,
        licence=profile.licence,
        gemm=gemm,
        decode=decodes,
        prefill=prefills,
        all_reduce=all_reduce_tables(profile.all_reduce),
        elementwise=elementwise,
        effects=effects,
        report=report,
    )
    report.update(checks.of(profile, fitted, gpu))
    return fitted.model_copy(update={"report": report})
