"""The one door to Numba: every kernel of the project is compiled with these flags.

``SERVECAST_PLAIN=1`` in the environment replaces compilation by the identity, for the
whole package at once: compiled inner kernels would otherwise still be called from a
plain outer one.  Both forms give the same bits, so no flag here may change a sum
(``fastmath`` stays off) or an integer type.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

PLAIN = os.environ.get("SERVECAST_PLAIN", "") == "1"

F = TypeVar("F", bound=Callable[..., Any])

# Kernels allocate nothing, so they need no reference counts (`_nrt`), which otherwise cost
# an atomic operation per array and call: the step loop is three times slower with them.
FLAGS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

# Where kernels live: a change in any of these files may change what others have inlined.
KERNEL_SOURCES = (
    "cost_models/jit.py",
    "cost_models/kernel.py",
    "cost_models/parts.py",
    "simulator/recording.py",
    "simulator/engine/*.py",
    "simulator/kv_cache/*.py",
    "simulator/metrics/*.py",
    "simulator/schedulers/*.py",
)


@functools.cache
def cache_folder() -> Path:
    """Folder for compiled kernels of exactly these sources.

    Numba renews a cached function when its own file changes, but not when a function that
    it has inlined does; so the sources' hash is part of the path.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for pattern in KERNEL_SOURCES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path.home() / ".cache") / "servecast" / digest.hexdigest()[:16]


@contextmanager
def caching() -> Iterator[None]:
    """Let what is decorated here be cached in `cache_folder`."""
    from numba.core import config

    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_folder())
    try:
        yield
    finally:
        settings.CACHE_DIR = before


if PLAIN:

    def njit(function: F) -> F:
        """Leave `function` as it is: the plain form."""
        return function

    inlined = njit

else:
    from cost_models.parts import Kernel

    def njit(function: F) -> F:
        """Compile `function` when it is first used, into the kernels that call it.

        What Python calls is cached on disk.  Division is that of IEEE 754.
        """
        with caching():
            return cast(F, Kernel(function, FLAGS))

    def inlined(function: F) -> F:
        """The same, never as a call: for what runs once per request and step."""
        with caching():
            return cast(F, Kernel(function, FLAGS | {"forceinline": True}))
