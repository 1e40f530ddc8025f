"""A policy's address as a function that compiled code calls.

Numba takes a compiled function apart in Python each time that it is an argument, which costs
ten times what a call of the kernel otherwise does.  Its address, asked for once, costs nothing.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"
from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.experimental.function_type import FunctionModel
from numba.extending import NativeValue, register_model, unbox


class PolicyType(types.FunctionType):
    """A C function of a known signature, given as a whole number: its address."""


register_model(PolicyType)(FunctionModel)


@unbox(PolicyType)
def _from_address(typ: Any, obj: Any, c: Any) -> NativeValue:
    """The function at the address that a Python whole number is."""
    function = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    function.c_addr = c.pyapi.long_as_voidptr(obj)
    return NativeValue(function._getvalue())
