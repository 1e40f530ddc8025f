# Numba's interface for extensions is not typed:
# mypy: disable-error-code="no-untyped-call,attr-defined"
"""What Numba must know to compile a kernel as one piece.

By itself Numba makes a library of every decorated function: optimised, translated to
machine code, wrapped for Python and for C, saved on disk, and then optimised once more in
each caller.  Only the few kernels that Python calls need that.  All others are parts: their
unoptimised code is linked into the kernels that call them and translated there, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import compiler, types, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature


class _Part(JITCodeLibrary):
    """Code that only others run: neither optimised nor translated by itself."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def with_callees(self) -> list[Any]:
        """This library and all that it calls, each once."""
        found: dict[Any, None] = {self: None}
        for library in self._linking_libraries:
            callees = library.with_callees() if isinstance(library, _Part) else [library]
            found.update(dict.fromkeys(callees))
        return list(found)


class Kernel(CPUDispatcher):
    """A compiled function: a part where a kernel calls it, cached on disk where Python does.

    Parameters
    ----------
    function : to compile.
    options : those of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions={"nopython": True, "boundscheck": None} | options)
        self._parts: dict[tuple[types.Type, ...], Any] = {}
        self.enable_caching()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What type inference asks for a call from compiled code."""
        signature, args = self._compiler.fold_argument_types(args, kws)
        args = tuple(_widened(arg) for arg in args)
        if args not in self._parts:
            self._parts[args] = self._compile_part(args)
        name = self.py_func.__name__
        template = typing.make_concrete_template(name, name, [self._parts[args].signature])
        return template, signature, args, {}

    def get_overload(self, sig: Any) -> Any:
        """The key under which code generation finds the part that was inferred."""
        args, _ = normalize_signature(sig)
        return self._parts[tuple(args)].fndesc

    def _compile_part(self, args: tuple[types.Type, ...]) -> Any:
        flags: Any = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        context = self.targetdescr.target_context
        library = _Part(context.codegen(), self.py_func.__qualname__)
        part = compiler.compile_extra(
            self.targetdescr.typing_context, context, self.py_func, args, None, flags, {}, library
        )
        context.insert_user_function(part.fndesc, part.fndesc, library.with_callees())
        return part


def _widened(kind: types.Type) -> types.Type:
    """One type for all integers and constants, so that a part is not compiled for each."""
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) else kind
