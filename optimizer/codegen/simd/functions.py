"""Exponential, logarithm and hyperbolic tangent of vectors, which compilers leave to a library, one lane at a time.

Each is within about one unit in the last place of the true value, and has the special values that the library has:
infinities, NaN, signed zeros, overflow and denormal numbers. Which of two neighbours it rounds to may differ from it.

The methods are W. Cody and W. Waite's ("Software Manual for the Elementary Functions", 1980): the argument is reduced
by multiples of log(2), held in two numbers, and the rest goes into a series; that of the logarithm is FDLIBM's (Sun
Microsystems, 1993). Each instruction has a flag of its own, so that Numba gives it none of the caller's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from optimizer.codegen.simd.arithmetic import intrinsic, lane_by_lane
from optimizer.codegen.simd.lanes import by_lane
from optimizer.codegen.simd.vector import Vector


def exp(vector: Any) -> Any:
    return by_lane(np.exp)(vector)


def log(vector: Any) -> Any:
    return by_lane(np.log)(vector)


def tanh(vector: Any) -> Any:
    return by_lane(np.tanh)(vector)


def power(vector: Any, exponent: int) -> Any:
    """`vector ** exponent` for a small positive whole number, by multiplications in the order of Numba."""
    return by_lane(lambda number: number**exponent)(vector)


@type_callable(power)
def type_power(context: Any) -> Any:
    def typer(vector: Any, exponent: Any) -> Any:
        is_known = isinstance(vector, Vector) and isinstance(exponent, types.IntegerLiteral)
        return vector if is_known and vector.dtype in (types.float64, types.float32) else None

    return typer


@lower_builtin(power, Vector, types.IntegerLiteral)
def compile_power(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    exponent, square, result = signature.args[1].literal_value, arguments[0], None
    while exponent:
        if exponent & 1:
            result = square if result is None else builder.fmul(result, square)
        exponent >>= 1
        square = builder.fmul(square, square) if exponent else square
    return result


class FloatVectors:
    """Instructions on vectors of one type of floating-point numbers; Python's numbers stand for all lanes."""

    def __init__(self, builder: Any, kind: Any) -> None:
        self.builder, self.kind = builder, kind
        self.is_double = isinstance(kind.element, ir.DoubleType)
        self.bits, self.mantissa, self.bias = (64, 52, 1023) if self.is_double else (32, 23, 127)
        self.whole_kind = ir.VectorType(ir.IntType(self.bits), kind.count)
        self.short_kind = ir.VectorType(ir.IntType(32), kind.count)

    def of(self, value: Any) -> Any:
        return ir.Constant(self.kind, [value] * self.kind.count) if isinstance(value, float) else value

    def whole(self, value: int) -> Any:
        return ir.Constant(self.whole_kind, [value] * self.kind.count)

    def add(self, left: Any, right: Any) -> Any:
        return self.builder.fadd(self.of(left), self.of(right), flags=("contract",))

    def subtract(self, left: Any, right: Any) -> Any:
        return self.builder.fsub(self.of(left), self.of(right), flags=("contract",))

    def multiply(self, left: Any, right: Any) -> Any:
        return self.builder.fmul(self.of(left), self.of(right), flags=("contract",))

    def divide(self, left: Any, right: Any) -> Any:
        return self.builder.fdiv(self.of(left), self.of(right), flags=("contract",))

    def series(self, value: Any, coefficients: Any) -> Any:
        """`c[0] + value * (c[1] + value * (...))`."""
        *others, last = coefficients
        total = self.of(last)
        for coefficient in reversed(others):
            total = self.add(self.multiply(total, value), coefficient)
        return total

    def choose(self, sign: str, value: Any, limit: Any, chosen: Any, otherwise: Any) -> Any:
        """`chosen` where `value sign limit`, which is false of NaN."""
        is_so = self.builder.fcmp_ordered(sign, value, self.of(limit))
        return self.builder.select(is_so, self.of(chosen), self.of(otherwise))

    def unless_nan(self, value: Any, result: Any) -> Any:
        return self.builder.select(self.builder.fcmp_unordered("uno", value, value), value, result)

    def power_of_two(self, exponent: Any) -> Any:
        """Of whole numbers in the range of normal numbers."""
        shifted = self.builder.shl(self.builder.add(exponent, self.whole(self.bias)), self.whole(self.mantissa))
        return self.builder.bitcast(shifted, self.kind)

    def reduced(self, value: Any) -> tuple[Any, Any]:
        """A whole number n and exp(value - n log(2)) - 1, for values between the limits of `exp`."""
        high, low = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
        if not self.is_double:
            high, low = 6.9313812256e-01, 9.0580006145e-06
        count = intrinsic("rint")(self.builder, self.multiply(value, 1.0 / math.log(2.0)))
        rest = self.subtract(self.subtract(value, self.multiply(count, high)), self.multiply(count, low))
        # What follows the last term is less than half a unit in the last place for rests up to log(2) / 2.
        degree = 13 if self.is_double else 7
        terms = [1.0 / math.factorial(k) for k in range(2, degree + 1)]
        less_one = self.add(self.multiply(self.multiply(rest, rest), self.series(rest, terms)), rest)
        short = self.builder.fptosi(count, self.short_kind)
        return (self.builder.sext(short, self.whole_kind) if self.is_double else short), less_one


def emit_exp(builder: Any, vector: Any) -> Any:
    v = FloatVectors(builder, vector.type)
    most, least = (710.0, -746.0) if v.is_double else (89.0, -104.0)
    value = v.choose(">", vector, most, most, vector)
    value = v.choose("<", value, least, least, value)
    count, less_one = v.reduced(value)
    # In two steps, because 2**count alone may be infinite or denormal where the result is not.
    half = builder.ashr(count, v.whole(1))
    result = v.multiply(v.add(less_one, 1.0), v.power_of_two(half))
    return v.unless_nan(vector, v.multiply(result, v.power_of_two(builder.sub(count, half))))


def emit_tanh(builder: Any, vector: Any) -> Any:
    v = FloatVectors(builder, vector.type)
    size = intrinsic("fabs")(builder, vector)
    size = v.choose(">", size, 22.0, 22.0, size)
    count, less_one = v.reduced(v.add(size, size))
    scale = v.power_of_two(count)
    less_one = v.add(v.multiply(scale, less_one), v.subtract(scale, 1.0))
    result = v.divide(less_one, v.add(less_one, 2.0))
    sign = builder.and_(builder.bitcast(vector, v.whole_kind), v.whole(-(2 ** (v.bits - 1))))
    signed = builder.bitcast(builder.or_(builder.bitcast(result, v.whole_kind), sign), v.kind)
    return v.unless_nan(vector, signed)


def emit_log(builder: Any, vector: Any) -> Any:
    if not isinstance(vector.type.element, ir.DoubleType):
        wide = builder.fpext(vector, ir.VectorType(ir.DoubleType(), vector.type.count))
        return builder.fptrunc(emit_log(builder, wide), vector.type)
    v = FloatVectors(builder, vector.type)
    least_normal, root_of_half = 2.0**-1022, 0x3FE6A09E667F3BCD
    is_denormal = builder.fcmp_ordered("<", vector, v.of(least_normal))
    normal = builder.select(is_denormal, v.multiply(vector, 2.0**54), vector)
    bits = builder.bitcast(normal, v.whole_kind)
    exponent = builder.ashr(builder.sub(bits, v.whole(root_of_half)), v.whole(v.mantissa))
    rest = v.subtract(builder.bitcast(builder.sub(bits, builder.shl(exponent, v.whole(v.mantissa))), v.kind), 1.0)
    exponent = builder.sub(exponent, builder.select(is_denormal, v.whole(54), v.whole(0)))
    count = builder.sitofp(builder.trunc(exponent, v.short_kind), v.kind)
    ratio = v.divide(rest, v.add(rest, 2.0))
    square = v.multiply(ratio, ratio)
    terms = (
        *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01),
        *(1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01),
    )
    half = v.multiply(v.multiply(rest, rest), 0.5)
    small = v.multiply(ratio, v.add(half, v.multiply(square, v.series(square, terms))))
    small = v.add(small, v.multiply(count, 1.90821492927058770002e-10))
    result = v.subtract(v.multiply(count, 6.93147180369123816490e-01), v.subtract(v.subtract(half, small), rest))
    result = v.choose("==", vector, math.inf, math.inf, result)
    result = v.choose("==", vector, 0.0, -math.inf, result)
    return builder.select(builder.fcmp_unordered("<", vector, v.of(0.0)), v.of(math.nan), result)


lane_by_lane(exp, math.exp, emit_exp, arity=1)
lane_by_lane(log, math.log, emit_log, arity=1)
lane_by_lane(tanh, math.tanh, emit_tanh, arity=1)
