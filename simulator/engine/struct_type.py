# Numba's interface for extensions is not typed:
# mypy: disable-error-code="no-untyped-call,untyped-decorator,attr-defined,override"
"""What Numba must know of a `Struct`: its type, how it is passed, how members are read."""

from __future__ import annotations

import hashlib
from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, models, register_model, unbox
from numba.np import arrayobj

from simulator.engine.struct import Struct

_WORD = ir.IntType(64)


class StructType(types.Type):
    """Type of all objects of one subclass of `Struct`.

    Attributes
    ----------
    fields : name of each member -> its type and its place in the table, in words.
    """

    def __init__(self, name: str, members: tuple[tuple[str, types.Type], ...]):
        self.fields: dict[str, tuple[types.Type, int]] = {}
        place = 0
        for member, kind in members:
            self.fields[member] = (kind, place)
            place += _size(kind)
        digest = hashlib.sha256(repr(members).encode()).hexdigest()[:8]
        super().__init__(name=f"{name}_{digest}")


def _size(kind: types.Type) -> int:
    """Words that a member takes in the table."""
    if isinstance(kind, StructType):
        return 1
    if isinstance(kind, types.BaseNamedTuple):
        items: Any = kind.types
        return sum(_size(item) for item in items)
    return int(1 + kind.ndim)


def struct_type(example: Struct) -> StructType:
    """Type of `example` and of all other objects of its class."""
    return _type_of_class(type(example), example)


def _member_type(value: Any) -> types.Type:
    if isinstance(value, Struct):
        return struct_type(value)
    if isinstance(value, tuple):
        return types.NamedTuple([_member_type(item) for item in value], type(value))
    return types.Array(numba.from_dtype(value.dtype), value.ndim, "C")


_types: dict[type, StructType] = {}


def _type_of_class(cls: type[Struct], example: Struct) -> StructType:
    if cls not in _types:
        members = tuple((name, _member_type(getattr(example, name))) for name in cls.members)
        _types[cls] = StructType(cls.__name__, members)
    return _types[cls]


@typeof_impl.register(Struct)
def _typeof_struct(value: Struct, context: Any) -> StructType:
    return struct_type(value)


register_model(StructType)(models.OpaqueModel)


@unbox(StructType)
def _unbox_struct(kind: StructType, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _StructAttribute(AttributeTemplate):
    key = StructType

    def generic_resolve(self, kind: StructType, name: str) -> types.Type | None:
        field = kind.fields.get(name)
        return field[0] if field else None


@lower_getattr_generic(StructType)
def _read_member(context: Any, builder: Any, kind: StructType, value: Any, name: str) -> Any:
    member, place = kind.fields[name]
    table = builder.bitcast(value, _WORD.as_pointer())
    result, _ = _load(context, builder, member, table, place)
    return result


def _load(context: Any, builder: Any, kind: types.Type, table: Any, place: int) -> tuple[Any, int]:
    """Value of the member at `place`, and the place behind it."""
    if isinstance(kind, types.BaseNamedTuple):
        items = []
        for item in kind.types:
            value, place = _load(context, builder, item, table, place)
            items.append(value)
        return context.make_tuple(builder, kind, items), place
    address = _load_word(builder, table, place)
    if isinstance(kind, StructType):
        return builder.inttoptr(address, context.get_value_type(kind)), place + 1
    shape = [_load_word(builder, table, place + 1 + d) for d in range(kind.ndim)]
    item_size = context.get_constant(types.intp, _item_size(context, kind.dtype))
    strides = [item_size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    arrayobj.populate_array(
        array, data=data, shape=shape, strides=strides, itemsize=item_size, meminfo=None
    )
    return array._getvalue(), place + 1 + kind.ndim


def _item_size(context: Any, dtype: types.Type) -> int:
    if isinstance(dtype, types.Record):
        return int(dtype.size)
    return int(context.get_abi_sizeof(context.get_data_type(dtype)))


def _load_word(builder: Any, table: Any, place: int) -> Any:
    """Load from the table, which never changes: the optimiser may keep what it has loaded."""
    word = builder.load(cgutils.gep_inbounds(builder, table, place))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
