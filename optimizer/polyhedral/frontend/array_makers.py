"""Arrays that are made of numbers: `np.full((n, m), 1.5)`, `np.eye(n)`, `np.arange(n)` and their like."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.polyhedral.frontend.affine import NotAffine, affine, floor_division
from optimizer.polyhedral.frontend.array_values import ArrayValue
from optimizer.polyhedral.frontend.functions import CASTS, DTYPES
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError, whole
from optimizer.polyhedral.frontend.scope import Scope

_FILLS = {"zeros": 0, "ones": 1, "empty": 0}


def made_array(
    scope: Scope,
    name: str,
    arguments: Sequence[ast.expr],
    words: Mapping[str, ast.expr],
    value_of: Callable[[ast.expr], ArrayValue],
) -> ArrayValue | None:
    """What a call of NumPy's function `name` makes; None when it makes no array of numbers.

    Raises:
        NotAffine: for a size that is no affine number.
        ShapeError: for a call that has no meaning here.
    """
    base = name.removesuffix("_like")
    is_like = base != name
    match base, list(arguments):
        case (("zeros" | "ones" | "empty"), [shape, *rest]) if len(rest) <= 1:
            fill: ast.expr | None = None
            sample: Any = float(_FILLS[base])
        case "full", [shape, fill, *rest] if len(rest) <= 1:
            sample = value_of(fill).sample
        case "eye" | "identity", [size]:
            return _eye(scope, size, words)
        case "linspace", [low, high, *rest] if len(rest) + ("num" in words) == 1 and not set(words) - {"num"}:
            return _linspace(scope, (low, high), rest[0] if rest else words["num"], value_of)
        case "arange", [*bounds] if 1 <= len(bounds) <= 3:
            return _arange(scope, bounds, words)
        case _:
            return None
    if set(words) - {"dtype"}:
        raise ShapeError(f"np.{name} with {', '.join(words)}")
    dtype = [*rest, *([words["dtype"]] if "dtype" in words else [])]
    if is_like:
        like = value_of(shape)
        extents, kind = like.extents, like.dtype
    else:
        extents, kind = shape_of(scope, shape, value_of), np.asarray(sample).dtype.name
    kind = named_type(scope, dtype[0]) if dtype else kind
    node = fill if fill is not None else _number(_FILLS[base], kind)
    return ArrayValue(extents, lambda _: node, np.ones(1, kind), is_empty=base == "empty")


def shape_of(scope: Scope, node: ast.expr, value_of: Callable[[ast.expr], ArrayValue]) -> tuple[Quantity, ...]:
    """The extents that `n`, `(n, m)`, `A.shape` or `(A.shape[0], 3)` say."""
    match node:
        case ast.Attribute(value=base, attr="shape") if (like := value_of(base)).rank:
            return like.extents
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(quantity(scope, part) for part in parts)
        case _:
            return (quantity(scope, node),)


def quantity(scope: Scope, node: ast.expr) -> Quantity:
    """An affine number of the source. Raises `NotAffine`."""
    return Quantity(affine(node, scope.lookup), node) + whole(0)


def named_type(scope: Scope, node: ast.expr) -> str:
    """The type that `np.float32`, `"float32"`, `float` or `A.dtype` names. Raises `NotAffine` for no such type."""
    match node:
        case ast.Constant(value=str() as name) if name in DTYPES:
            return name
        case ast.Attribute(value=ast.Name(id=array), attr="dtype") if array in scope.arrays:
            return scope.arrays[array].dtype
        case _ if (full := scope.module.resolve(node)) in CASTS:
            return CASTS[full]
        case _:
            raise NotAffine(node, f"`{ast.unparse(node)}` is not a type of array that is supported")


def _eye(scope: Scope, size: ast.expr, words: Mapping[str, ast.expr]) -> ArrayValue:
    kind = named_type(scope, words["dtype"]) if "dtype" in words else "float64"
    extent = quantity(scope, size)
    one, zero = _number(1, kind), _number(0, kind)

    def element(point: tuple[Quantity, ...]) -> ast.expr:
        return ast.IfExp(ast.Compare(point[0].node, [ast.Eq()], [point[1].node]), one, zero)

    return ArrayValue((extent, extent), element, np.ones(1, kind))


def _arange(scope: Scope, bounds: Sequence[ast.expr], words: Mapping[str, ast.expr]) -> ArrayValue | None:
    """Of whole numbers, one by one."""
    try:
        limits = [quantity(scope, bound) for bound in bounds]
    except NotAffine:
        return None
    step = limits[2].constant if len(limits) == 3 else 1
    if step is None or step < 1:
        return None
    start, stop = (limits[0], limits[1]) if len(limits) > 1 else (whole(0), limits[0])
    kind = named_type(scope, words["dtype"]) if "dtype" in words else "int64"

    def element(point: tuple[Quantity, ...]) -> ast.expr:
        node = (start + point[0].times(step)).node
        return ast.Call(ast.Name("float", ast.Load()), [node], []) if kind.startswith("float") else node

    rounded = stop - start + whole(step - 1)
    count = stop - start
    if step > 1:
        count = Quantity(
            floor_division(rounded.value, step), ast.BinOp(rounded.node, ast.FloorDiv(), ast.Constant(step))
        )
    return ArrayValue((count,), element, np.ones(1, kind))


def _linspace(
    scope: Scope, ends: tuple[ast.expr, ast.expr], number: ast.expr, value_of: Callable[[ast.expr], ArrayValue]
) -> ArrayValue:
    """The first and the last are as given; between them are multiples of one step, as NumPy has them."""
    if any(value_of(end).rank for end in ends):
        raise ShapeError("np.linspace takes numbers here")
    low, high = (ast.Call(ast.Name("float", ast.Load()), [end], []) for end in ends)
    count = quantity(scope, number)
    last = count - whole(1)

    def element(point: tuple[Quantity, ...]) -> ast.expr:
        at = point[0].node
        step = ast.BinOp(ast.BinOp(high, ast.Sub(), low), ast.Div(), last.node)
        inner = ast.BinOp(ast.BinOp(at, ast.Mult(), step), ast.Add(), low)
        is_last = ast.Compare(at, [ast.Eq()], [last.node])
        return ast.IfExp(ast.Compare(at, [ast.Eq()], [ast.Constant(0)]), low, ast.IfExp(is_last, high, inner))

    return ArrayValue((count,), element, np.ones(1))


def _number(value: int, kind: str) -> ast.expr:
    return ast.Constant(float(value) if kind.startswith("float") else bool(value) if kind == "bool" else value)
