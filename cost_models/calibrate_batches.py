"""What batches as they come take, from profiles that hold them: uneven, with a past, mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from cost_models import fit, forms, grids
from cost_models.calibration import Decode, Elementwise, Prefill
from cost_models.catalog import Gpu
from cost_models.effects import Effects, PastOfChunk, SharedLaunch, UnevenBatches
from cost_models.importers.profile import Profile

Array = NDArray[np.float64]

FEWEST_ROWS = 6  # of a kind, for a fit of it
LONGEST_PAST_S = 1e-8  # per token and KV head; twice the largest that was ever measured
KV_DTYPE = "bf16"  # of the caches that are profiled with such batches


def calibrate_effects(
    profile: Profile, gpu: Gpu, decodes: Sequence[Decode], prefills: Sequence[Prefill]
) -> tuple[Effects, dict[str, Any]] | None:
    """Effects that a profile shows, and how well they fit; None if it has no such rows.

    Parameters
    ----------
    profile : its `uneven`, `past` and `mixed` rows.
    gpu : its datasheet, which bounds the fits.
    decodes, prefills : the fits of the profile's other rows, for what lacks beside them.
    """
    report: dict[str, Any] = {}
    uneven = _uneven(profile.uneven, gpu, report) if len(profile.uneven) >= FEWEST_ROWS else None
    past = _past(profile.past, prefills, report) if len(profile.past) >= FEWEST_ROWS else None
    shared = None
    if len(profile.mixed) >= FEWEST_ROWS:
        shared = _shared(profile.mixed, uneven, decodes, prefills, report)
    if not report:
        return None
    found = Effects(
        source="the same profile", uneven_batches=uneven, shared_launch=shared, past_of_chunk=past
    )
    return found, report


def _uneven(rows: pd.DataFrame, gpu: Gpu, report: dict[str, Any]) -> UnevenBatches:
    """The roofline of uneven batches of the head size that most rows have."""
    head_dim = int(rows["head_dim"].mode()[0])
    rows = rows[rows["head_dim"] == head_dim]
    roofline, at_bound, undecided = fit.fit_decode(rows, gpu, KV_DTYPE)
    predicted = forms.decode_attention_s(roofline, **fit.decode_inputs(rows, KV_DTYPE))
    report["uneven batches"] = fit.error_summary(predicted, fit.column(rows, "seconds"))
    report["uneven batches, at bound"] = at_bound
    report["uneven batches, undecided"] = undecided
    return UnevenBatches(head_dim=head_dim, **roofline)


def _prefill_s(rows: pd.DataFrame, prefills: Sequence[Prefill]) -> Array:
    """What the fits say of each row's chunks, with their past in the area."""
    result = np.zeros(len(rows))
    inputs = fit.prefill_inputs(rows)
    for i, (heads, kv_heads) in enumerate(
        zip(rows["num_heads"], rows["num_kv_heads"], strict=True)
    ):
        nearest = grids.nearest_heads(prefills, int(heads), int(kv_heads))
        one = {name: values[i] for name, values in inputs.items()}
        result[i] = forms.prefill_attention_s(nearest.fit, **one)
    return result


def _past(rows: pd.DataFrame, prefills: Sequence[Prefill], report: dict[str, Any]) -> PastOfChunk:
    """Seconds per token found cached, beyond the area's."""
    without_s, measured = _prefill_s(rows, prefills), fit.column(rows, "seconds")
    reads = fit.column(rows, "seqs") * fit.column(rows, "past") * fit.column(rows, "num_kv_heads")

    def loss(exponent: float) -> float:
        return float(np.abs(np.log((without_s + 10**exponent * reads) / measured)).sum())

    found = minimize_scalar(loss, bounds=(-14, np.log10(LONGEST_PAST_S)), method="bounded")
    per_token_s = float(f"{10**found.x:.3g}")
    report["chunks with a past"] = fit.error_summary(without_s + per_token_s * reads, measured)
    report["chunks with a past, by their area alone"] = fit.error_summary(without_s, measured)
    return PastOfChunk(s_per_token_and_kv_head=per_token_s)


def _shared(
    rows: pd.DataFrame,
    uneven: UnevenBatches | None,
    decodes: Sequence[Decode],
    prefills: Sequence[Prefill],
    report: dict[str, Any],
) -> SharedLaunch | None:
    """What decodes and one chunk without a past take less in one launch than in two."""
    rows = rows[rows["past"] == 0]
    if rows.empty:
        return None
    roofline = uneven.roofline if uneven is not None else decodes[0].roofline
    decode_s = forms.decode_attention_s(roofline, **fit.decode_inputs(rows, KV_DTYPE))
    apart_s = decode_s + _prefill_s(rows.assign(seqs=1), prefills)
    measured = fit.column(rows, "seconds")
    saved_s = float(f"{np.median(apart_s - measured):.3g}")
    report["mixed batches as two launches"] = fit.error_summary(apart_s, measured)
    if saved_s <= 0:
        return None
    report["mixed batches as one"] = fit.error_summary(apart_s - saved_s, measured)
    return SharedLaunch(saved_s_per_layer=saved_s)


def calibrate_small(rows: pd.DataFrame, gpu: Gpu) -> tuple[Elementwise, dict[str, Any]]:
    """Launch and rate of norms and activations."""
    size = forms.BF16_BYTES * (rows["m"] * rows["n"] * rows["elements_each"]).to_numpy(np.float64)
    measured, peak = fit.column(rows, "seconds"), gpu.memory_bandwidth_bytes_per_s
    bounds: fit.Bounds = {
        "launch_s": (1e-7, 3e-6, 1e-3),
        "bytes_per_s": (0.01 * peak, 0.8 * peak, 10 * peak),  # small ones stay in the cache
    }

    def predict(parameters: dict[str, float]) -> Array:
        return parameters["launch_s"] + size / parameters["bytes_per_s"]

    fitted, at_bound, undecided = fit.fit(predict, measured, bounds)
    report = {
        "fit": fit.error_summary(predict(fitted), measured),
        "at_bound": at_bound,
        "undecided": undecided,
    }
    return Elementwise(**fitted), report
