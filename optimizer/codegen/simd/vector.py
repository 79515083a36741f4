"""What a vector is, and how numbers and vectors become vectors of another type."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, models, register_model, type_callable

from optimizer.codegen.simd.lanes import Lanes


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


def splat(value: Any, lanes: int) -> Any:
    """One number in all lanes."""
    return Lanes([value] * lanes)


@type_callable(splat)
def type_splat(context: Any) -> Any:
    def typer(value: Any, lanes: Any) -> Any:
        is_known = isinstance(value, types.Number) and isinstance(lanes, types.IntegerLiteral)
        return Vector(types.unliteral(value), lanes.literal_value) if is_known else None

    return typer


@lower_builtin(splat, types.Number, types.IntegerLiteral)
def compile_splat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    return converted(context, builder, arguments[0], signature.args[0], vector.dtype, vector.lanes)


def rounded_like(register: Any, value: Any) -> Any:
    """`value` as numbers of the type that `register` has: what is there after a store into such an array."""
    return Lanes(type(kept)(number) for kept, number in zip(register, value, strict=True))


@type_callable(rounded_like)
def type_rounded_like(context: Any) -> Any:
    return lambda register, value: register if isinstance(register, Vector) and isinstance(value, Vector) else None


@lower_builtin(rounded_like, Vector, Vector)
def compile_rounded_like(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    register, kind = signature.args
    return converted(context, builder, arguments[1], kind, register.dtype, register.lanes)


def converted(context: Any, builder: Any, value: Any, kind: Any, dtype: Any, lanes: int) -> Any:
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


def dtype_of(kind: Any) -> Any:
    return kind.dtype if isinstance(kind, Vector) else types.unliteral(kind)
