"""Vectors for generated code: the values of a few neighbouring iterations of a loop, together in one register.

Every operation is a plain function that computes one lane after the other, which says what it does and runs where
nothing is compiled; with it stands what Numba compiles it to, an LLVM instruction for all lanes. Python's operators
work on vectors too.

Numbers have the types that Numba gives them one by one: int32 + int32 is int64, float32 times float64 is float64, also
where one operand is no vector but a number for all lanes. So each lane rounds and overflows as the scalar code does;
only a store converts to the type of an array.
"""

from optimizer.codegen.simd.alignment import to_boundary
from optimizer.codegen.simd.arithmetic import (
    greatest_of_lanes,
    least_of_lanes,
    maximum,
    minimum,
    product_of_lanes,
    select,
    sqrt,
    sum_of_lanes,
)
from optimizer.codegen.simd.memory import (
    gather,
    gather_masked,
    lanes_between,
    load,
    load_masked,
    scatter,
    store,
    store_masked,
)
from optimizer.codegen.simd.streaming import fence, store_streaming
from optimizer.codegen.simd.vector import Vector, rounded_like, splat

__all__ = [
    "Vector",
    "fence",
    "gather",
    "gather_masked",
    "greatest_of_lanes",
    "lanes_between",
    "least_of_lanes",
    "load",
    "load_masked",
    "maximum",
    "minimum",
    "product_of_lanes",
    "rounded_like",
    "scatter",
    "select",
    "splat",
    "sqrt",
    "store",
    "store_masked",
    "store_streaming",
    "sum_of_lanes",
    "to_boundary",
]
