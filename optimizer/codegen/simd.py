"""Vectors for generated code: the values of a few neighbouring iterations of a loop, together in one register.

Every operation is a plain function on NumPy arrays, which says what it does and runs where nothing is compiled; with it
stands what Numba compiles it to, an LLVM instruction for all lanes. Python's operators work on vectors too.

Numbers have the types that Numba gives them one by one: int32 + int32 is int64, float32 times float64 is float64, also
where one operand is no vector but a number for all lanes. So each lane rounds and overflows as the scalar code does;
only a store converts to the type of an array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, models, register_model, type_callable


class Vector(types.Type):
    """`lanes` numbers of one Numba type; of booleans for what comparisons give."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"vector({dtype}, {lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """As an LLVM vector."""

    def __init__(self, manager: Any, vector: Any) -> None:
        element = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(element, vector.lanes))


# Reading and writing arrays. `index` is where lane 0 is: a number, or a tuple with one for each dimension.


def load(array: Any, index: Any, lanes: int) -> Any:
    """Neighbours along the last dimension."""
    return array[_elements(index, _to_the_next(index), lanes)]


def gather(array: Any, index: Any, steps: Any, lanes: int) -> Any:
    """Elements at `index`, `index + steps`, `index + 2 * steps`, ..."""
    return array[_elements(index, steps, lanes)]


def store(array: Any, index: Any, vector: Any) -> None:
    """Write neighbours along the last dimension."""
    array[_elements(index, _to_the_next(index), len(vector))] = vector


def scatter(array: Any, index: Any, steps: Any, vector: Any) -> None:
    """Write elements at `index`, `index + steps`, `index + 2 * steps`, ..."""
    array[_elements(index, steps, len(vector))] = vector


def _to_the_next(index: Any) -> Any:
    return (*(0 for _ in index[1:]), 1) if isinstance(index, tuple) else 1


def _elements(index: Any, steps: Any, lanes: int) -> Any:
    """NumPy's index of the elements of all lanes."""
    starts, steps = (index, steps) if isinstance(index, tuple) else ((index,), (steps,))
    return tuple(int(start) + step * np.arange(lanes) for start, step in zip(starts, steps, strict=True))


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
    vector = _converted(context, builder, arguments[2], kind, array.dtype, kind.lanes)
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
    vector = _converted(context, builder, arguments[3], kind, array.dtype, kind.lanes)
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
    parts = zip(kind, cgutils.unpack_tuple(builder, value), strict=True)
    return [context.cast(builder, part, of, types.intp) for of, part in parts]


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


def _converted(context: Any, builder: Any, value: Any, kind: Any, dtype: Any, lanes: int) -> Any:
    """A vector, or a number for all lanes, as a vector of the type of number that is wanted."""
    target = context.get_value_type(Vector(dtype, lanes))
    if not isinstance(kind, Vector):
        number = context.cast(builder, value, kind, dtype)
        undefined = ir.Constant(target, ir.Undefined)
        first = builder.insert_element(undefined, number, ir.IntType(32)(0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))
    if kind.dtype == dtype:
        return value
    grows = dtype.bitwidth > kind.dtype.bitwidth
    match isinstance(kind.dtype, types.Float), isinstance(dtype, types.Float):
        case True, True:
            return builder.fpext(value, target) if grows else builder.fptrunc(value, target)
        case True, False:
            return builder.fptosi(value, target)
        case False, True:
            return builder.sitofp(value, target)
        case _:
            return builder.sext(value, target) if grows else builder.trunc(value, target)


# Values.


def splat(value: Any, lanes: int) -> Any:
    """One number in all lanes."""
    return np.full(lanes, value)


def minimum(first: Any, second: Any) -> Any:
    """Python's `min(first, second)`: the first, unless the second is less."""
    return np.where(second < first, second, first)


def maximum(first: Any, second: Any) -> Any:
    """Python's `max(first, second)`: the first, unless the second is greater."""
    return np.where(second > first, second, first)


def sqrt(vector: Any) -> Any:
    return np.sqrt(vector)


def select(condition: Any, chosen: Any, otherwise: Any) -> Any:
    """`chosen if condition else otherwise`; both have been computed."""
    return np.where(condition, chosen, otherwise)


def sum_of_lanes(vector: Any) -> Any:
    """The sum: the upper half of the lanes is added to the lower half until one is left."""
    while len(vector) > 1:
        half = len(vector) // 2
        vector = vector[:half] + vector[half:]
    return vector[0]


@type_callable(splat)
def type_splat(context: Any) -> Any:
    def typer(value: Any, lanes: Any) -> Any:
        is_known = isinstance(value, types.Number) and isinstance(lanes, types.IntegerLiteral)
        return Vector(types.unliteral(value), lanes.literal_value) if is_known else None

    return typer


@lower_builtin(splat, types.Number, types.IntegerLiteral)
def compile_splat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    return _converted(context, builder, arguments[0], signature.args[0], vector.dtype, vector.lanes)


@type_callable(select)
def type_select(context: Any) -> Any:
    def typer(condition: Any, chosen: Any, otherwise: Any) -> Any:
        if not isinstance(condition, Vector) or condition.dtype != types.boolean:
            return None
        dtype = context.unify_types(_dtype(chosen), _dtype(otherwise))
        return Vector(dtype, condition.lanes) if isinstance(dtype, types.Number) else None

    return typer


@lower_builtin(select, Vector, types.Any, types.Any)
def compile_select(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    chosen, otherwise = (
        _converted(context, builder, value, kind, vector.dtype, vector.lanes)
        for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
    )
    return builder.select(arguments[0], chosen, otherwise)


@type_callable(sum_of_lanes)
def type_sum_of_lanes(context: Any) -> Any:
    return lambda vector: vector.dtype if isinstance(vector, Vector) else None


@lower_builtin(sum_of_lanes, Vector)
def compile_sum_of_lanes(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    (vector,) = arguments
    while (half := vector.type.count // 2) > 0:
        lanes = ir.VectorType(ir.IntType(32), half)
        lower = builder.shuffle_vector(vector, vector, ir.Constant(lanes, [*range(half)]))
        upper = builder.shuffle_vector(vector, vector, ir.Constant(lanes, [*range(half, 2 * half)]))
        vector = instruction("fadd", "add")(builder, lower, upper)
    return builder.extract_element(vector, ir.IntType(32)(0))


def _dtype(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, Vector) else types.unliteral(kind)


def lane_by_lane(function: Any, of_numbers: Any, emit: Callable[..., Any], arity: int = 2) -> None:
    """Let Numba compile `function` for vectors, and for a vector and a number.

    Types are what `of_numbers` has for numbers; `emit` makes the instruction of a builder and vectors of one type, that
    of the result or, where this is a boolean, of the operands.
    """

    def scalar(context: Any, kinds: Any) -> Any:
        return context.resolve_function_type(of_numbers, tuple(map(_dtype, kinds)), {})

    def typed(context: Any, *kinds: Any) -> Any:
        lanes = {kind.lanes for kind in kinds if isinstance(kind, Vector)}
        is_logic = function in (operator.and_, operator.or_, operator.invert)
        if len(lanes) != 1 or any((_dtype(kind) == types.boolean) != is_logic for kind in kinds):
            return None
        found = scalar(context, kinds)
        return None if found is None else Vector(found.return_type, *lanes)

    def type_function(context: Any) -> Any:
        if arity == 1:
            return lambda operand: typed(context, operand)
        return lambda left, right: typed(context, left, right)

    def compile_function(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = scalar(context.typing_context, signature.args)
        dtype = numbers.args[0] if numbers.return_type == types.boolean else numbers.return_type
        lanes = signature.return_type.lanes
        vectors = (
            _converted(context, builder, value, kind, dtype, lanes)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        return emit(builder, *vectors)

    type_callable(function)(type_function)
    two = ((Vector, Vector), (Vector, types.Number), (types.Number, Vector))
    for kinds in two if arity == 2 else ((Vector,),):
        lower_builtin(function, *kinds)(compile_function)


def instruction(of_floats: str, of_whole_numbers: str = "") -> Callable[..., Any]:
    def emit(builder: Any, *vectors: Any) -> Any:
        return getattr(builder, of_whole_numbers if _is_whole(vectors[0]) else of_floats)(*vectors)

    return emit


def comparison(sign: str) -> Callable[..., Any]:
    def emit(builder: Any, left: Any, right: Any) -> Any:
        if _is_whole(left):
            return builder.icmp_signed(sign, left, right)
        return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, left, right)

    return emit


def second_if(sign: str) -> Callable[..., Any]:
    return lambda builder, first, second: builder.select(comparison(sign)(builder, second, first), second, first)


def intrinsic(name: str) -> Callable[..., Any]:
    def emit(builder: Any, vector: Any) -> Any:
        bits = 64 if isinstance(vector.type.element, ir.DoubleType) else 32
        function = ir.FunctionType(vector.type, [vector.type])
        full_name = f"llvm.{name}.v{vector.type.count}f{bits}"
        return builder.call(cgutils.get_or_insert_function(builder.module, function, full_name), [vector])

    return emit


def magnitude(builder: Any, vector: Any) -> Any:
    if not _is_whole(vector):
        return intrinsic("fabs")(builder, vector)
    is_negative = builder.icmp_signed("<", vector, ir.Constant(vector.type, [0] * vector.type.count))
    return builder.select(is_negative, builder.neg(vector), vector)


def _is_whole(vector: Any) -> bool:
    return isinstance(vector.type.element, ir.IntType)


lane_by_lane(operator.add, operator.add, instruction("fadd", "add"))
lane_by_lane(operator.sub, operator.sub, instruction("fsub", "sub"))
lane_by_lane(operator.mul, operator.mul, instruction("fmul", "mul"))
lane_by_lane(operator.truediv, operator.truediv, instruction("fdiv"))
lane_by_lane(operator.neg, operator.neg, instruction("fneg", "neg"), arity=1)
lane_by_lane(operator.lt, operator.lt, comparison("<"))
lane_by_lane(operator.le, operator.le, comparison("<="))
lane_by_lane(operator.gt, operator.gt, comparison(">"))
lane_by_lane(operator.ge, operator.ge, comparison(">="))
lane_by_lane(operator.eq, operator.eq, comparison("=="))
lane_by_lane(operator.ne, operator.ne, comparison("!="))
lane_by_lane(operator.and_, operator.and_, instruction("", "and_"))
lane_by_lane(operator.or_, operator.or_, instruction("", "or_"))
lane_by_lane(operator.invert, operator.invert, instruction("", "not_"), arity=1)
lane_by_lane(abs, abs, magnitude, arity=1)
lane_by_lane(sqrt, math.sqrt, intrinsic("sqrt"), arity=1)
lane_by_lane(minimum, min, second_if("<"))
lane_by_lane(maximum, max, second_if(">"))
