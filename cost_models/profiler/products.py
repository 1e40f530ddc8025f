"""Calls of matrix products and of the small kernels around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

from cost_models.errors import InputError
from cost_models.importers.profile import SMALL_ELEMENTS
from cost_models.profiler.cases import Case
from cost_models.profiler.clock import Call
from cost_models.profiler.extra import torch_module
from cost_models.profiler.memory import Pool

DTYPES = ("bf16", "fp8")


def gemm_elements(of: Case) -> int:
    """Elements of weights, inputs and outputs."""
    return of["n"] * of["k"] + of["m"] * (of["k"] + of["n"])


def gemm_calls(of: Case, pool: Pool, dtype: str) -> list[Call]:
    """``[m, k] @ [k, n]`` with weights of the pool's type or, one scale per tensor, fp8.

    Raises
    ------
    InputError : for another data type.
    """
    torch = torch_module()
    m, n, k = of["m"], of["n"], of["k"]
    weights = pool.parts(n, k)
    inputs = pool.random(m, k)
    if dtype == "bf16":
        return [lambda w=w: torch.nn.functional.linear(inputs, w) for w in weights]  # type: ignore[misc]
    if dtype != "fp8":
        raise InputError(f"weights of {dtype} cannot be profiled; choose from {', '.join(DTYPES)}.")
    scale = torch.ones((), device=pool.device)
    eight = torch.float8_e4m3fn
    inputs8 = inputs.to(eight)
    weights8 = [w.to(eight) for w in weights]

    def product(w: Any) -> Any:
        return torch._scaled_mm(inputs8, w.t(), scale_a=scale, scale_b=scale, out_dtype=pool.dtype)

    return [lambda w=w: product(w) for w in weights8]  # type: ignore[misc]


def small_elements(of: Case) -> float:
    """Elements that a norm with its residual, or a gated activation, reads and writes."""
    return of["m"] * of["n"] * SMALL_ELEMENTS[of.op]


def small_calls(of: Case, pool: Pool) -> list[Call]:
    """RMS norm after a residual addition, or SiLU times gate, each fused in one kernel."""
    m, n = of["m"], of["n"]
    function = _fused(of.op) if pool.device == "cuda" else SMALL[of.op]
    if of.op == "norm":
        weight = pool.random(n)
        inputs = pool.parts(2, m, n)
        return [lambda x=x: function(x[0], x[1], weight) for x in inputs]  # type: ignore[misc]
    return [lambda x=x: function(x) for x in pool.parts(m, n)]  # type: ignore[misc]


@functools.cache
def _fused(op: str) -> Callable[..., Any]:
    """One kernel made by PyTorch's compiler, as engines have theirs."""
    return cast(Callable[..., Any], torch_module().compile(SMALL[op]))


def _add_norm(x: Any, residual: Any, weight: Any) -> tuple[Any, Any]:
    total = x.float() + residual.float()
    scaled = total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    return (scaled * weight).to(x.dtype), total.to(x.dtype)


def _gate(x: Any) -> Any:
    gate, up = x.chunk(2, dim=-1)
    return torch_module().nn.functional.silu(gate) * up


SMALL: dict[str, Callable[..., Any]] = {"norm": _add_norm, "activation": _gate}
