"""What a calibration says of its own trustworthiness beyond the errors of its fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cost_models import fit, forms, grids
from cost_models.calibration import Calibration, Decode
from cost_models.catalog import Gpu
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.fitted import regimes
from cost_models.importers.profile import Profile


def of(profile: Profile, fitted: Calibration, gpu: Gpu) -> dict[str, Any]:
    """Error by regime, error with a split of heads left out, and rows beyond the datasheet.

    A model or tensor-parallel size that was not measured has a split of heads of its own,
    for which the nearest measured one stands in: so each split is predicted by the nearest
    other one.
    """
    by_regime: dict[str, dict[str, tuple[list[fit.Array], list[fit.Array]]]] = {}
    for regime in regimes(profile, fitted):
        fits, rows = by_regime.setdefault(regime.operation, {}).setdefault(regime.name, ([], []))
        fits.append(regime.fitted_s)
        rows.append(regime.measured_s)
    report: dict[str, Any] = {
        f"{operation}, fit by regime": {
            name: fit.error_summary(np.concatenate(fits), np.concatenate(rows))
            for name, (fits, rows) in found.items()
        }
        for operation, found in by_regime.items()
    }
    left_out = {
        "decode attention": [r for entry in fitted.decode for r in _decode_heads_left_out(entry)],
        "prefill attention": list(_prefill_heads_left_out(profile, fitted)),
    }
    for operation, ratios in left_out.items():
        if ratios:
            joined = np.concatenate(ratios)
            report[f"{operation}, left-out heads"] = {
                "nearest others": fit.error_summary(joined, np.ones_like(joined))
            }
    beyond = _beyond_bandwidth(profile, gpu)
    if beyond:
        report["rows faster than the datasheet's bandwidth"] = beyond
    return report


def _decode_heads_left_out(decode: Decode) -> Iterator[fit.Array]:
    """Grid of the nearest other split of heads over a split's own."""
    for entry in decode.heads:
        others = [other for other in decode.heads if other is not entry]
        if others:
            nearest = grids.nearest_heads(others, entry.num_heads, entry.num_kv_heads)
            yield (np.array(nearest.permille) / np.array(entry.permille)).ravel()


def _prefill_heads_left_out(profile: Profile, fitted: Calibration) -> Iterator[fit.Array]:
    """Times by the nearest other split's fit over a split's own rows."""
    rows = fit.prefill_rows(profile.prefill)
    for entry in fitted.prefill:
        others = [o for o in fitted.prefill if o.head_dim == entry.head_dim and o is not entry]
        if not others:
            continue
        own = rows[
            (rows["num_heads"] == entry.num_heads)
            & (rows["num_kv_heads"] == entry.num_kv_heads)
            & (rows["head_dim"] == entry.head_dim)
        ]
        nearest = grids.nearest_heads(others, entry.num_heads, entry.num_kv_heads)
        seconds = forms.prefill_attention_s(nearest.fit, **fit.prefill_inputs(own))
        yield seconds / fit.column(own, "seconds")


def _beyond_bandwidth(profile: Profile, gpu: Gpu) -> dict[str, int]:
    """Rows that move their weights or cache faster than memory can: they were in the L2."""
    width = DTYPE_BYTES[profile.dtype]
    gemm, decode = profile.gemm, profile.decode
    moved = {
        "GEMM": (width * gemm["n"] * gemm["k"], gemm["seconds"]),
        "decode attention": (
            2 * width * decode["seqs"] * decode["context"] * decode["num_kv_heads"]
            * decode["head_dim"],
            decode["seconds"],
        ),
    }  # fmt: skip
    counts = {
        name: int((size / seconds > gpu.memory_bandwidth_bytes_per_s).sum())
        for name, (size, seconds) in moved.items()
    }
    return {name: count for name, count in counts.items() if count}
