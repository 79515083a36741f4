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


def load_masked(array: Any, index: Any, mask: Any) -> Any:
    """As `load` where the mask has True; 0 elsewhere, where nothing is read."""
    zero = array.dtype.type(0)
    return Lanes(zero if place is None else array[place] for place in _masked_places(index, _to_the_next(index), mask))


def gather_masked(array: Any, index: Any, steps: Any, mask: Any) -> Any:
    """As `gather` where the mask has True; 0 elsewhere, where nothing is read."""
    zero = array.dtype.type(0)
    return Lanes(zero if place is None else array[place] for place in _masked_places(index, steps, mask))


def store_masked(array: Any, index: Any, vector: Any, mask: Any) -> None:
    """As `store` where the mask has True; nothing is written elsewhere."""
    for place, number in zip(_masked_places(index, _to_the_next(index), mask), vector, strict=True):
        if place is not None:
            array[place] = number


def lanes_between(lane: int, first: int, last: int, lanes: int) -> Any:
    """The mask of the numbers `lane`, `lane + 1`, ... that are from `first` up to, not including, `last`."""
    return Lanes(first <= number < last for number in range(int(lane), int(lane) + lanes))


def scatter(array: Any, index: Any, steps: Any, vector: Any) -> None:
    """Write elements at `index`, `index + steps`, `index + 2 * steps`, ..."""
    for place, number in zip(_places(index, steps, len(vector)), vector, strict=True):
        array[place] = number


def _to_the_next(index: Any) -> Any:
    return (*(0 for _ in index[1:]), 1) if isinstance(index, tuple) else 1


def _places(index: Any, steps: Any, lanes: int) -> Iterator[tuple[int, ...]]:
    """The subscripts of each lane's element; compiled, a negative one does not count from the end."""
    return (_place_of(index, steps, lane) for lane in range(lanes))


def _masked_places(index: Any, steps: Any, mask: Any) -> Iterator[tuple[int, ...] | None]:
    """The same; None where the mask has False."""
    return (_place_of(index, steps, lane) if is_on else None for lane, is_on in enumerate(mask))


def _place_of(index: Any, steps: Any, lane: int) -> tuple[int, ...]:
    starts, steps = (index, steps) if isinstance(index, tuple) else ((index,), (steps,))
    place = tuple(int(start) + lane * step for start, step in zip(starts, steps, strict=True))
    if min(place) < 0:
        raise IndexError(f"index {place} is negative")
    return place


@type_callable(load)
def type_load(context: Any) -> Any:
    return lambda array, index, lanes: _type_loaded(array, lanes)


@type_callable(gather)
def type_gather(context: Any) -> Any:
    return lambda array, index, steps, lanes: _type_loaded(array, lanes)


@type_callable(store)
def type_store(context: Any) -> Any:
    return lambda array, index, vector: type_stored(array, vector)


@type_callable(scatter)
def type_scatter(context: Any) -> Any:
    return lambda array, index, steps, vector: type_stored(array, vector)


def _type_loaded(array: Any, lanes: Any) -> Any:
    is_known = isinstance(array, types.Array) and isinstance(lanes, types.IntegerLiteral)
    return Vector(array.dtype, lanes.literal_value) if is_known else None


def type_stored(array: Any, vector: Any) -> Any:
    return types.none if isinstance(array, types.Array) and array.mutable and isinstance(vector, Vector) else None


@lower_builtin(load, types.Array, types.Any, types.IntegerLiteral)
def compile_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = signature.args[0]
    address, strides = address_of(context, builder, signature, arguments)
    vector = context.get_value_type(signature.return_type)
    if array.layout != "C":
        return _load_lanes(builder, vector, address, strides[-1])
    return builder.load(builder.bitcast(address, vector.as_pointer()), align=array.dtype.bitwidth // 8)


@lower_builtin(gather, types.Array, types.Any, types.Any, types.IntegerLiteral)
def compile_gather(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, strides = address_of(context, builder, signature, arguments)
    distance = _distance(context, builder, signature.args[2], arguments[2], strides)
    return _load_lanes(builder, context.get_value_type(signature.return_type), address, distance)


@lower_builtin(store, types.Array, types.Any, Vector)
def compile_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, kind = signature.args
    address, strides = address_of(context, builder, signature, arguments)
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
    address, strides = address_of(context, builder, signature, arguments)
    vector = converted(context, builder, arguments[3], kind, array.dtype, kind.lanes)
    _store_lanes(builder, vector, address, _distance(context, builder, steps, arguments[2], strides))
    return context.get_dummy_value()


@type_callable(load_masked)
def type_load_masked(context: Any) -> Any:
    return lambda array, index, mask: Vector(array.dtype, mask.lanes) if _is_masked(array, mask) else None


@type_callable(gather_masked)
def type_gather_masked(context: Any) -> Any:
    return lambda array, index, steps, mask: Vector(array.dtype, mask.lanes) if _is_masked(array, mask) else None


@type_callable(store_masked)
def type_store_masked(context: Any) -> Any:
    return lambda array, index, vector, mask: type_stored(array, vector) if _is_masked(array, mask) else None


def _is_masked(array: Any, mask: Any) -> bool:
    return isinstance(array, types.Array) and isinstance(mask, Vector) and mask.dtype == types.boolean


@type_callable(lanes_between)
def type_lanes_between(context: Any) -> Any:
    def typer(lane: Any, first: Any, last: Any, lanes: Any) -> Any:
        is_known = isinstance(lanes, types.IntegerLiteral)
        return Vector(types.boolean, lanes.literal_value) if is_known else None

    return typer


@lower_builtin(lanes_between, types.Integer, types.Integer, types.Integer, types.IntegerLiteral)
def compile_lanes_between(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kinds, lanes = signature.args[:3], signature.return_type.lanes
    lane, first, last = (
        converted(context, builder, value, kind, types.int64, lanes)
        for value, kind in zip(arguments[:3], kinds, strict=True)
    )
    numbers = builder.add(lane, ir.Constant(lane.type, list(range(lanes))))
    above = builder.icmp_signed("<=", first, numbers)
    return builder.and_(above, builder.icmp_signed("<", numbers, last))


@lower_builtin(load_masked, types.Array, types.Any, Vector)
def compile_load_masked(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = signature.args[0]
    address, strides = address_of(context, builder, signature, arguments)
    vector = context.get_value_type(signature.return_type)
    if array.layout == "C":
        pointer = builder.bitcast(address, vector.as_pointer())
        kind = ir.FunctionType(vector, [pointer.type, ir.IntType(32), arguments[2].type, vector])
        function = _intrinsic(builder, "load", kind, vector)
        align = ir.IntType(32)(array.dtype.bitwidth // 8)
        zero = ir.Constant(vector, [0] * vector.count)
        return builder.call(function, [pointer, align, arguments[2], zero])
    values = cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * vector.count))
    for lane, place in _masked_lanes(builder, arguments[2], address, strides[-1]):
        changed = builder.insert_element(builder.load(values), builder.load(place), lane)
        builder.store(changed, values)
    return builder.load(values)


@lower_builtin(gather_masked, types.Array, types.Any, types.Any, Vector)
def compile_gather_masked(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, strides = address_of(context, builder, signature, arguments)
    distance = _distance(context, builder, signature.args[2], arguments[2], strides)
    vector = context.get_value_type(signature.return_type)
    pointers = ir.Constant(ir.VectorType(address.type, vector.count), ir.Undefined)
    for lane in range(vector.count):
        place = _lane_address(builder, address, distance, lane)
        pointers = builder.insert_element(pointers, place, ir.IntType(32)(lane))
    kind = ir.FunctionType(vector, [pointers.type, ir.IntType(32), arguments[3].type, vector])
    align = ir.IntType(32)(signature.args[0].dtype.bitwidth // 8)
    zero = ir.Constant(vector, [0] * vector.count)
    function = _intrinsic(builder, "gather", kind, vector, f"v{vector.count}p0")
    return builder.call(function, [pointers, align, arguments[3], zero])


@lower_builtin(store_masked, types.Array, types.Any, Vector, Vector)
def compile_store_masked(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, _, kind, _ = signature.args
    address, strides = address_of(context, builder, signature, arguments)
    vector = converted(context, builder, arguments[2], kind, array.dtype, kind.lanes)
    if array.layout == "C":
        pointer = builder.bitcast(address, vector.type.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [vector.type, pointer.type, ir.IntType(32), arguments[3].type])
        function = _intrinsic(builder, "store", kind, vector.type)
        builder.call(function, [vector, pointer, ir.IntType(32)(array.dtype.bitwidth // 8), arguments[3]])
        return context.get_dummy_value()
    for lane, place in _masked_lanes(builder, arguments[3], address, strides[-1]):
        builder.store(builder.extract_element(vector, lane), place)
    return context.get_dummy_value()


def _intrinsic(builder: Any, what: str, kind: Any, vector: Any, pointer: str = "p0") -> Any:
    """LLVM's masked load, gather or store of a vector."""
    letter = "i" if isinstance(vector.element, ir.IntType) else "f"
    bits = {"double": 64, "float": 32}.get(str(vector.element)) or vector.element.width
    name = f"llvm.masked.{what}.v{vector.count}{letter}{bits}.{pointer}"
    return cgutils.get_or_insert_function(builder.module, kind, name)


def _masked_lanes(builder: Any, mask: Any, address: Any, distance: Any) -> Iterator[tuple[Any, Any]]:
    """Each lane and the address of its element, in a block of code that runs where the mask has True."""
    for lane in range(mask.type.count):
        number = ir.IntType(32)(lane)
        with builder.if_then(builder.extract_element(mask, number)):
            yield number, _lane_address(builder, address, distance, lane)


def address_of(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
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
