"""The one door to Numba: every kernel of the project is compiled with these flags.

``SERVECAST_PLAIN=1`` in the environment replaces compilation by the identity, for the
whole package at once: compiled inner kernels would otherwise still be called from a
plain outer one.  Both forms give the same bits, so no flag here may change a sum
(``fastmath`` stays off) or an integer type.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

PLAIN = os.environ.get("SERVECAST_PLAIN", "") == "1"

F = TypeVar("F", bound=Callable[..., Any])

# Kernels allocate nothing, so they need no reference counts (`_nrt`), which otherwise cost
# an atomic operation per array and call: the step loop is three times slower with them.
FLAGS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}

if PLAIN:

    def njit(function: F) -> F:
        """Leave `function` as it is: the plain form."""
        return function

else:
    import numba

    def njit(function: F) -> F:
        """Compile `function` lazily, cache it on disk, divide as IEEE 754 does."""
        return cast(F, numba.njit(**FLAGS)(function))
