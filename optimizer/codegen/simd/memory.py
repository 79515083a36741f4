"""Reading and writing arrays. `index` is where lane 0 is: a number, or a tuple with one for each dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from optimizer.codegen.simd.lanes import Lanes
from optimizer.codegen.simd.vector import Vector, converted


def load(array: Any, index: Any, lanes: int) -> Any:
    """Neighbours along the last dimension."""
    return Lanes(array[place] for place in _places(index, _to_the_next(index), lanes))


def gather(array: Any, index: Any, steps: Any, lanes: int) -> Any:
    """Elements at `index`, `index + steps`, `index + 2 * steps`, ..."""
    return Lanes(array[place] for place in _places(index, steps, lanes))


def store(array: Any, index: Any, vector: Any) -> None:
    """Write neighbours along the last dimension."""
    scatter(array, index, _to_the_next(index), vector)


def scatter(array: Any, index: Any, steps: Any, vector: Any) -> None:
    """Write elements at `index`, `index + steps`, `index + 2 * steps`, ..."""
    for place, number in zip(_places(index, steps, len(vector)), vector, strict=True):
        array[place] = number


def _to_the_next(index: Any) -> Any:
    return (*(0 for _ in index[1:]), 1) if isinstance(index, tuple) else 1


def _places(index: Any, steps: Any, lanes: int) -> Iterator[tuple[int, ...]]:
    """The subscripts of each lane's element; compiled, a negative one does not count from the end."""
    starts, steps = (index, steps) if isinstance(index, tuple) else ((index,), (steps,))
    for lane in range(lanes):
        place = tuple(int(start) + lane * step for start, step in zip(starts, steps, strict=True))
        if min(place) < 0:
            raise IndexError(f"index {place} is negative")
        yield place


@type_callable(load)
def type_load(context: Any) -> Any:
    return lambda array, index, lanes: _type_loaded(array, lanes)


@type_callable(gather)
def type_gather(context: Any) -> Any:
    return lambda array, index, steps, lanes: _type_loaded(array, lanes)


@type_callable(store)
def type_store(context: Any) -> Any:
    return lambda array, index, vector: _type_stored(array, vector)


@type_callable(scatter)
def type_scatter(context: Any) -> Any:
    return lambda array, index, steps, vector: _type_stored(array, vector)


def _type_loaded(array: Any, lanes: Any) -> Any:
    is_known = isinstance(array, types.Array) and isinstance(lanes, types.IntegerLiteral)
    return Vector(array.dtype, lanes.literal_value) if is_known else None


def _type_stored(array: Any, vector: Any) -> Any:
    return types.none if isinstance(array, types.Array) and array.mutable and isinstance(vector, Vector) else None


@lower_builtin(load, types.Array, types.Any, types.IntegerLiteral)
def compile_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = signature.args[0]
    address, strides = _place(context, builder, signature, arguments)
    vector = context.get_value_type(signature.return_type)
    if array.layout != "C":
        return _load_lanes(builder, vector, address, strides[-1])
    return builder.load(builder.bitcast(address, vector.as_pointer()), align=array.dtype.bitwidth // 8)


@lower_builtin(gather, types.Array, types.Any, types.Any, types.IntegerLiteral)
def compile_gather(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, strides = _place(context, builder, signature, arguments)
    distance = _distance(context, builder, signature.args[2], arguments[2], strides)
    return _load_lanes(builder, context.get_value_type(signature.return_type), address, distance)


@lower_builtin(store, types.Array, types.Any, Vector)
def compile_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, kind = signature.args
    address, strides = _place(context, builder, signature, arguments)
    vector = converted(context, builder, arguments[2], kind, array.dtype, kind.lanes)
    if array.layout == "C":
        pointer = builder.bitcast(address, vector.type.as_pointer())
        builder.store(vector, pointer, align=array.dtype.bitwidth // 8)
    else:
        _store_lanes(builder, vector, address, strides[-1])
    return context.get_dummy_value()


@lower_builtin(scatter, types.Array, types.Any, types.Any, Vector)
def compile_scatter(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, steps, kind = signature.args
    address, strides = _place(context, builder, signature, arguments)
    vector = converted(context, builder, arguments[3], kind, array.dtype, kind.lanes)
    _store_lanes(builder, vector, address, _distance(context, builder, steps, arguments[2], strides))
    return context.get_dummy_value()


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """The address of lane 0, and the strides of the array in bytes."""
    kind, of_index = signature.args[:2]
    array = context.make_array(kind)(context, builder, arguments[0])
    shape, strides = (cgutils.unpack_tuple(builder, numbers) for numbers in (array.shape, array.strides))
    index = _whole_numbers(context, builder, of_index, arguments[1])
    return cgutils.get_item_pointer2(context, builder, array.data, shape, strides, kind.layout, index), strides


def _distance(context: Any, builder: Any, kind: Any, steps: Any, strides: Any) -> Any:
    """The bytes from one lane's element to the next one's."""
    total = ir.Constant(strides[0].type, 0)
    for step, stride in zip(_whole_numbers(context, builder, kind, steps), strides, strict=True):
        total = builder.add(total, builder.mul(step, stride))
    return total


def _whole_numbers(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """A number, or those of a tuple, as wide as an address."""
    if not isinstance(kind, types.BaseTuple):
        return [context.cast(builder, value, kind, types.intp)]
    of_parts: Any = kind
    parts = cgutils.unpack_tuple(builder, value)
    return [context.cast(builder, part, of, types.intp) for of, part in zip(of_parts, parts, strict=True)]


def _load_lanes(builder: Any, vector: Any, address: Any, distance: Any) -> Any:
    result = ir.Constant(vector, ir.Undefined)
    for lane in range(vector.count):
        element = builder.load(_lane_address(builder, address, distance, lane))
        result = builder.insert_element(result, element, ir.IntType(32)(lane))
    return result


def _store_lanes(builder: Any, vector: Any, address: Any, distance: Any) -> None:
    for lane in range(vector.type.count):
        element = builder.extract_element(vector, ir.IntType(32)(lane))
        builder.store(element, _lane_address(builder, address, distance, lane))


def _lane_address(builder: Any, address: Any, distance: Any, lane: int) -> Any:
    return cgutils.pointer_add(builder, address, builder.mul(distance, distance.type(lane)))
