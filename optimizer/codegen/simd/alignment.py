"""Where vectors lie in memory: one that begins at a multiple of its size is in one line of the cache, not in two."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from optimizer.codegen.simd.memory import address_of


def to_boundary(array: Any, index: Any, lanes: int) -> Any:
    """How many elements after `index` a vector begins at a multiple of its size in memory; less than `lanes`."""
    places = index if isinstance(index, tuple) else (index,)
    address = array.ctypes.data + sum(int(place) * stride for place, stride in zip(places, array.strides, strict=True))
    return -address % (lanes * array.itemsize) // array.itemsize


@type_callable(to_boundary)
def type_to_boundary(context: Any) -> Any:
    def typer(array: Any, index: Any, lanes: Any) -> Any:
        is_known = isinstance(array, types.Array) and isinstance(lanes, types.IntegerLiteral)
        return types.intp if is_known else None

    return typer


@lower_builtin(to_boundary, types.Array, types.Any, types.IntegerLiteral)
def compile_to_boundary(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, lanes = signature.args
    element = array.dtype.bitwidth // 8
    address, _ = address_of(context, builder, signature, arguments)
    number = builder.neg(builder.ptrtoint(address, ir.IntType(64)))
    past = builder.and_(number, number.type(lanes.literal_value * element - 1))
    return builder.udiv(past, number.type(element))
