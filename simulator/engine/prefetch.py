# Numba's interface for extensions is not typed:
# mypy: disable-error-code="no-untyped-call,untyped-decorator,attr-defined"
"""Ask for a record before it is needed: a cache line from memory takes a hundred steps' time."""

from __future__ import annotations

from typing import Any

from cost_models.jit import PLAIN
from simulator.engine.state import Records

CACHE_LINE_BYTES = 64

if PLAIN:

    def prefetch(records: Records, i: int) -> None:
        """Python has no way to say so."""

else:
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    _FOR_WRITING, _KEEP, _DATA = 1, 3, 1  # arguments of llvm.prefetch

    @intrinsic
    def prefetch(typing_context: Any, records: Any, i: Any) -> Any:
        """Start to load all cache lines of ``records[i]``."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(records)(context, builder, args[0])
            start = builder.ptrtoint(array.data, ir.IntType(64))
            size = records.dtype.size
            row = builder.add(start, builder.mul(args[1], ir.Constant(ir.IntType(64), size)))
            pointer = ir.IntType(8).as_pointer()
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            for offset in range(0, size, CACHE_LINE_BYTES):
                line = builder.add(row, ir.Constant(ir.IntType(64), offset))
                flags = [ir.Constant(flag, value) for value in (_FOR_WRITING, _KEEP, _DATA)]
                builder.call(hint, [builder.inttoptr(line, pointer), *flags])
            return context.get_dummy_value()

        return types.void(records, types.int64), generate
