"""A Python object of arrays that compiled code sees as one pointer.

Numba passes a tuple of arrays by value, several machine words for each array and call.
The state of a fleet has some twenty arrays: as a tuple, calls copy more than they compute,
and compiling takes minutes.  A `Struct` writes the address and shape of its arrays into a
table once; compiled code gets the table's address and loads from it what it needs.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cost_models.jit import PLAIN


class Struct:
    """Base of a class whose annotated members are arrays, tuples of arrays or Structs.

    Arrays must be C-contiguous; members cannot be replaced once the object is made.
    Arrays of records are kept as `numpy.recarray`, so that ``table[i].field`` reads and
    writes in plain Python as it does in compiled code.

    Attributes
    ----------
    address : of the table of addresses and shapes.
    """

    members: ClassVar[tuple[str, ...]]
    address: int

    def __init_subclass__(cls) -> None:
        cls.members = tuple(cls.__annotations__)

    def __init__(self, **values: Any) -> None:
        words: list[int] = []
        for name in self.members:
            value = values.pop(name)
            if isinstance(value, np.ndarray) and value.dtype.names:
                value = value.view(np.recarray)
            setattr(self, name, value)
            if isinstance(value, Struct):
                words.append(value.address)
            else:
                for array in value if isinstance(value, tuple) else (value,):
                    words.extend(_words(array))
        if values:
            raise TypeError(f"{type(self).__name__} has no members {sorted(values)}")
        self._table = np.array(words, np.int64)
        self.address = int(self._table.ctypes.data)


def _words(array: NDArray[Any]) -> tuple[int, ...]:
    """What compiled code needs of an array: where it is and how large."""
    if not array.flags.c_contiguous:
        raise ValueError("arrays of a Struct must be C-contiguous")
    return (int(array.ctypes.data), *array.shape)


if not PLAIN:
    from simulator.engine import struct_type as _  # noqa: F401  teaches Numba what a Struct is
