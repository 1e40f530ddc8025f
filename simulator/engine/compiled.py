"""From a policy to something that runs replicas: compiled, or as plain Python.

The kernel `run` takes the policy as a first-class function, so it is compiled once, for
the one type that an `Engine` has, and cached on disk; a policy is a C function that it
calls.  Calling the kernel's entry point skips Numba's type dispatch, which for a function
argument costs twenty times the call itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cost_models.jit import FLAGS, PLAIN, caching
from simulator.engine.advance import Compose, run
from simulator.engine.lockstep import run_together
from simulator.engine.state import Engine

Run = Callable[[Engine, float, bool], int]


def runner(compose: Compose, *, together: bool = False) -> Run:
    """A function ``(engine, until, stop_at_end) -> status`` that runs under `compose`.

    With `together`, groups of replicas step as one, which is compiled apart.
    `compose` runs compiled if it is a Numba function, else as it is: then the verbs it
    calls are still compiled, and each step costs some tens of microseconds.
    """
    drive = run_together if together else run
    if PLAIN or not hasattr(compose, "py_func"):

        def run_plain(engine: Engine, until: float, stop_at_end: bool) -> int:
            with np.errstate(over="ignore"):  # hashes wrap
                return drive(engine, until, stop_at_end, compose)

        return run_plain
    kernel = _kernel(drive)
    policy = int(_c_function(compose).address)
    return lambda engine, until, stop_at_end: int(kernel(engine, until, stop_at_end, policy))


def entry_point(function: Callable[..., Any], *arguments: str) -> Callable[..., Any]:
    """A compiled function of an engine and numbers as it is called from Python a million times.

    Parameters
    ----------
    arguments : Numba's names of the types behind the engine: int64, float64 or boolean.
    """
    if PLAIN:
        return function
    import numba
    from numba import types

    kinds = [getattr(types, name) for name in arguments]
    with caching():
        dispatcher = numba.njit([(_engine_type(), *kinds)], cache=True, **FLAGS)(function.py_func)  # type: ignore[attr-defined]
    (overload,) = dispatcher.overloads.values()
    return cast(Callable[..., Any], overload.entry_point)  # type: ignore[attr-defined]


@functools.cache
def _engine_type() -> Any:
    from simulator.engine.allocate import empty_engine
    from simulator.engine.struct_type import struct_type

    return struct_type(empty_engine())


@functools.cache
def _compose_signature() -> Any:
    from numba import types

    return types.int64(_engine_type(), types.int64, types.float64)


@functools.cache
def _kernel(drive: Callable[..., int]) -> Callable[..., int]:
    import numba
    from numba import types

    from simulator.engine.policy_type import PolicyType

    signature = types.int64(
        _engine_type(), types.float64, types.boolean, PolicyType(_compose_signature())
    )
    with caching():
        dispatcher = numba.njit(signature, cache=True, **FLAGS)(drive)
    (overload,) = dispatcher.overloads.values()
    return cast(Callable[..., int], overload.entry_point)  # type: ignore[attr-defined]


@functools.cache
def _c_function(compose: Any) -> Any:
    import numba

    with caching():
        return numba.cfunc(_compose_signature(), cache=True, **FLAGS)(compose.py_func)


def announce_compilation(say: Callable[[str], None]) -> None:
    """Call `say` once, with a line for the user, when something is really compiled."""
    if PLAIN:
        return
    from numba.core import event

    class Announce(event.Listener):
        said = False

        def on_start(self, _: Any) -> None:
            if not self.said:
                self.said = True
                say("Compiling the simulation kernels; this happens once per machine ...")

        def on_end(self, _: Any) -> None:
            pass

    event.register("numba:compile", Announce())  # type: ignore[no-untyped-call]
