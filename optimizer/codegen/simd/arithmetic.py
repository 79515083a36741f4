"""Computing with vectors: each lane has the value that scalar code has, special values included."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from optimizer.codegen.simd.lanes import by_lane
from optimizer.codegen.simd.vector import Vector, converted, dtype_of


def minimum(first: Any, second: Any) -> Any:
    """Python's `min(first, second)`: the first, unless the second is less."""
    return by_lane(min)(first, second)


def maximum(first: Any, second: Any) -> Any:
    """Python's `max(first, second)`: the first, unless the second is greater."""
    return by_lane(max)(first, second)


def minimum_or_nan(first: Any, second: Any) -> Any:
    """NumPy's `minimum`: NaN where one of them is."""
    return by_lane(np.minimum)(first, second)


def maximum_or_nan(first: Any, second: Any) -> Any:
    """NumPy's `maximum`: NaN where one of them is."""
    return by_lane(np.maximum)(first, second)


def sqrt(vector: Any) -> Any:
    return by_lane(np.sqrt)(vector)


def select(condition: Any, chosen: Any, otherwise: Any) -> Any:
    """`chosen if condition else otherwise`; both have been computed."""
    return by_lane(lambda truth, one, other: one if truth else other)(condition, chosen, otherwise)


def sum_of_lanes(vector: Any) -> Any:
    """The sum: the upper half of the lanes is added to the lower half until one is left."""
    return _across(operator.add, vector)


def product_of_lanes(vector: Any) -> Any:
    """The product, of halves as the sum."""
    return _across(operator.mul, vector)


def least_of_lanes(vector: Any) -> Any:
    """The least number, of halves as the sum, with Python's `min`."""
    return _across(min, vector)


def greatest_of_lanes(vector: Any) -> Any:
    """The greatest number, of halves as the sum, with Python's `max`."""
    return _across(max, vector)


def least_or_nan_of_lanes(vector: Any) -> Any:
    """The least number, of halves as the sum, with NumPy's `minimum`."""
    return _across(np.minimum, vector)


def greatest_or_nan_of_lanes(vector: Any) -> Any:
    """The greatest number, of halves as the sum, with NumPy's `maximum`."""
    return _across(np.maximum, vector)


def _across(function: Callable[..., Any], vector: Any) -> Any:
    numbers = list(vector)
    while (half := len(numbers) // 2) > 0:
        numbers = [function(lower, upper) for lower, upper in zip(numbers[:half], numbers[half:], strict=True)]
    return numbers[0]


@type_callable(select)
def type_select(context: Any) -> Any:
    def typer(condition: Any, chosen: Any, otherwise: Any) -> Any:
        if not isinstance(condition, Vector) or condition.dtype != types.boolean:
            return None
        dtype = context.unify_types(dtype_of(chosen), dtype_of(otherwise))
        return Vector(dtype, condition.lanes) if isinstance(dtype, types.Number) else None

    return typer


@lower_builtin(select, Vector, types.Any, types.Any)
def compile_select(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    chosen, otherwise = (
        converted(context, builder, value, kind, vector.dtype, vector.lanes)
        for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
    )
    return builder.select(arguments[0], chosen, otherwise)


def across_lanes(function: Any, emit: Callable[..., Any]) -> None:
    """Let Numba compile `function`, which makes one number of a vector; `emit` combines two vectors to one."""

    def type_function(context: Any) -> Any:
        return lambda vector: vector.dtype if isinstance(vector, Vector) else None

    def compile_function(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (vector,) = arguments
        while (half := vector.type.count // 2) > 0:
            lanes = ir.VectorType(ir.IntType(32), half)
            lower = builder.shuffle_vector(vector, vector, ir.Constant(lanes, [*range(half)]))
            upper = builder.shuffle_vector(vector, vector, ir.Constant(lanes, [*range(half, 2 * half)]))
            vector = emit(builder, lower, upper)
        return builder.extract_element(vector, ir.IntType(32)(0))

    type_callable(function)(type_function)
    lower_builtin(function, Vector)(compile_function)


def lane_by_lane(function: Any, of_numbers: Any, emit: Callable[..., Any], arity: int = 2) -> None:
    """Let Numba compile `function` for vectors, and for a vector and a number.

    Types are what `of_numbers` has for numbers; `emit` makes the instruction of a builder and vectors of one type, that
    of the result or, where this is a boolean, of the operands.
    """

    def scalar(context: Any, kinds: Any) -> Any:
        return context.resolve_function_type(of_numbers, tuple(map(dtype_of, kinds)), {})

    def typed(context: Any, *kinds: Any) -> Any:
        lanes = {kind.lanes for kind in kinds if isinstance(kind, Vector)}
        is_logic = function in (operator.and_, operator.or_, operator.invert)
        if len(lanes) != 1 or any((dtype_of(kind) == types.boolean) != is_logic for kind in kinds):
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
            converted(context, builder, value, kind, dtype, lanes)
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


def first_if_nan_or(sign: str) -> Callable[..., Any]:
    def emit(builder: Any, first: Any, second: Any) -> Any:
        is_first = builder.or_(builder.fcmp_unordered("uno", first, first), comparison(sign)(builder, first, second))
        return builder.select(is_first, first, second)

    return emit


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
lane_by_lane(minimum_or_nan, min, first_if_nan_or("<="))
lane_by_lane(maximum_or_nan, max, first_if_nan_or(">="))
across_lanes(sum_of_lanes, instruction("fadd", "add"))
across_lanes(product_of_lanes, instruction("fmul", "mul"))
across_lanes(least_of_lanes, second_if("<"))
across_lanes(greatest_of_lanes, second_if(">"))
across_lanes(least_or_nan_of_lanes, first_if_nan_or("<="))
across_lanes(greatest_or_nan_of_lanes, first_if_nan_or(">="))
