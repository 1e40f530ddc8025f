"""Measured kernels beside what was fitted to them, by regime, for a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cost_models import fit, forms
from cost_models.calibration import Calibration
from cost_models.catalog.model_shape import DTYPE_BYTES
from cost_models.importers.profile import Profile

Array = NDArray[np.float64]
REGIMES = {"decode (m to 64)": (1, 64), "mixed (m to 1024)": (65, 1024), "prefill": (1025, 10**9)}
CONTEXTS = {"context to 1k": (1, 1024), "to 8k": (1025, 8192), "beyond": (8193, 10**9)}
CHUNKS = {"chunk to 512": (1, 512), "to 4k": (513, 4096), "beyond": (4097, 10**9)}


class Regime(NamedTuple):
    """One operation's rows of one regime, in seconds."""

    operation: str
    name: str
    measured_s: Array
    fitted_s: Array


def regimes(profile: Profile, fitted: Calibration) -> Iterator[Regime]:
    """Rows of a profile and the fits' times for them, by operation and regime.

    Where a calibration has a grid of measured / fitted too, prices go through the rows; the
    picture shows what the fit alone says of them.
    """
    gemm = fit.gemm_rows(profile.gemm)
    m, n, k = (fit.column(gemm, name) for name in ("m", "n", "k"))
    seconds = forms.gemm_s(fitted.gemm.roofline, m, n, k, DTYPE_BYTES[profile.dtype])
    yield from _split("GEMM", REGIMES, m, fit.column(gemm, "seconds"), seconds)
    for entry in fitted.decode:
        rows = fit.decode_rows(profile.decode[profile.decode["head_dim"] == entry.head_dim])
        seconds = forms.decode_attention_s(entry.roofline, **fit.decode_inputs(rows, profile.dtype))
        context, measured = fit.column(rows, "context"), fit.column(rows, "seconds")
        yield from _split("decode attention", CONTEXTS, context, measured, seconds)
    for split in fitted.prefill:
        of = fit.prefill_rows(profile.prefill)
        rows = of[
            (of["num_heads"] == split.num_heads)
            & (of["num_kv_heads"] == split.num_kv_heads)
            & (of["head_dim"] == split.head_dim)
        ]
        seconds = forms.prefill_attention_s(split.fit, **fit.prefill_inputs(rows))
        chunk, measured = fit.column(rows, "chunk"), fit.column(rows, "seconds")
        yield from _split("prefill attention", CHUNKS, chunk, measured, seconds)


def _split(
    operation: str,
    ranges: dict[str, tuple[int, int]],
    size: Array,
    measured: Array,
    fitted: Array,
) -> Iterator[Regime]:
    for name, (low, high) in ranges.items():
        inside = (size >= low) & (size <= high)
        if inside.any():
            yield Regime(operation, name, measured[inside], fitted[inside])
