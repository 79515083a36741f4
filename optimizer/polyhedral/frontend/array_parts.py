"""NumPy's functions that rearrange elements: each element of the result is one of the arguments, or a number."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.polyhedral.frontend.array_makers import quantity
from optimizer.polyhedral.frontend.array_values import (
    ArrayValue,
    Point,
    broadcast_extents,
    computed,
    elementwise,
    part_of,
    transposed,
)
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError, counter, whole
from optimizer.polyhedral.frontend.scope import Scope

REARRANGING = frozenset(
    [
        "reshape", "ravel", "flatten", "squeeze", "expand_dims", "transpose", "diag", "diagonal", "flip", "fliplr",
        "flipud", "roll", "concatenate", "hstack",
    ]
)  # fmt: skip
_OPTIONS = {"reshape": {"shape", "newshape"}, "transpose": {"axes"}, "ravel": set[str](), "flatten": set[str]()}
"""Words that a function takes, where that is not an axis."""


def rearranged(
    scope: Scope,
    function: str,
    arguments: Sequence[ast.expr],
    words: Mapping[str, ast.expr],
    value_of: Callable[[ast.expr], ArrayValue],
) -> ArrayValue | None:
    """What `np.function(*arguments, **words)` makes; None where the first argument is a number.

    Raises:
        ShapeError: for what is not supported.
        NotAffine: for sizes that are not affine.
    """
    if set(words) - _OPTIONS.get(function, {"axis"}):
        raise ShapeError(f"np.{function} with {', '.join(words)} is not supported")
    first, *rest = [*arguments, *words.values()]
    if function in {"concatenate", "hstack"}:
        parts = first.elts if isinstance(first, ast.Tuple | ast.List) else []
        axis = _constant(rest[0]) if rest else 0
        return _joined([value_of(part) for part in parts], axis, is_in_last=function == "hstack")
    value = value_of(first)
    if not value.rank:
        return None
    match function:
        case "ravel" | "flatten" if not rest:
            flat = _reshaped(scope, value, [ast.Constant(-1)])
            if function == "flatten":
                return computed(flat)
            if value.array is not None and ast.unparse(value.element((counter("at"),))) != f"{value.array}[at]":
                raise ShapeError("np.ravel of a part of an array may be a copy or not: use .copy() or .flatten()")
            return flat
        case "reshape":
            shape = rest[0].elts if len(rest) == 1 and isinstance(rest[0], ast.Tuple | ast.List) else rest
            return _reshaped(scope, value, shape)
        case "squeeze" if not rest:
            kept = [k for k, extent in enumerate(value.extents) if extent.constant != 1]
            return _with_dimensions(value, kept, [value.extents[k] for k in kept])
        case "expand_dims" if rest:
            axis = _axis(rest[0], value.rank + 1)
            kept = [k for k in range(value.rank + 1) if k != axis]
            extents = [*value.extents[:axis], whole(1), *value.extents[axis:]]
            return part_of(value, extents, lambda point: tuple(point[k] for k in kept))
        case "transpose":
            every = rest[0].elts if len(rest) == 1 and isinstance(rest[0], ast.Tuple | ast.List) else rest
            order = [_axis(each, value.rank) for each in every] if every else list(range(value.rank))[::-1]
            if sorted(order) != list(range(value.rank)):
                raise ShapeError("a transpose names each dimension once")
            return transposed(value, order)
        case "diag" | "diagonal" if not rest:
            return _diagonal(value)
        case "flip" | "fliplr" | "flipud":
            fixed = {"fliplr": [1], "flipud": [0]}.get(function, list(range(value.rank)))
            return _turned(value, [_axis(rest[0], value.rank)] if rest else fixed)
        case "roll" if len(rest) == 2 or (len(rest) == 1 and value.rank == 1):
            return _rolled(value, _constant(rest[0]), _axis(rest[1], value.rank) if len(rest) == 2 else 0)
        case _:
            raise ShapeError(f"`np.{function}` is not supported with these arguments")


def _constant(node: ast.expr) -> int:
    try:
        found: Any = ast.literal_eval(node)
    except ValueError:
        found = None
    if not isinstance(found, int):
        raise ShapeError(f"`{ast.unparse(node)}` must be a whole number here")
    return found


def _axis(node: ast.expr, rank: int) -> int:
    axis = _constant(node)
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} of {rank} dimensions")
    return axis % rank


def _with_dimensions(value: ArrayValue, kept: Sequence[int], extents: Sequence[Quantity]) -> ArrayValue:
    """The same elements by the dimensions in `kept`; the others have one position."""

    def place(point: Point) -> Point:
        given = dict(zip(kept, point, strict=True))
        return tuple(given.get(k, whole(0)) for k in range(value.rank))

    return part_of(value, extents, place)


def _reshaped(scope: Scope, value: ArrayValue, shape: Sequence[ast.expr]) -> ArrayValue:
    """Dimensions of one position come and go; the others stay as they are."""
    kept = [k for k, extent in enumerate(value.extents) if extent.constant != 1]
    wanted = [quantity(scope, size) for size in shape]
    places = [k for k, size in enumerate(wanted) if size.constant != 1]
    if len(places) == len(kept) + 1 and any(wanted[k].constant == -1 for k in places):
        places = [k for k in places if wanted[k].constant != -1]
    if len(places) != len(kept):
        raise ShapeError("a new shape may only add or drop dimensions of size 1")
    extents = [whole(1)] * len(wanted)
    for k, own in zip(places, kept, strict=True):
        extent = value.extents[own]
        if wanted[k].constant != -1:
            broadcast_extents([[wanted[k]], [extent]])
        extents[k] = extent

    def place(point: Point) -> Point:
        given = {own: point[k] for k, own in zip(places, kept, strict=True)}
        return tuple(given.get(k, whole(0)) for k in range(value.rank))

    return part_of(value, extents, place)


def _diagonal(value: ArrayValue) -> ArrayValue:
    """Of a matrix; of a vector, the matrix that has it on its diagonal."""
    if value.rank == 1:
        zero = ast.Constant(0.0 if value.dtype.startswith("float") else 0)
        extent = value.extents[0]

        def element(point: Point) -> ast.expr:
            row, column = point
            return ast.IfExp(ast.Compare(row.node, [ast.Eq()], [column.node]), value.element((row,)), zero)

        return ArrayValue((extent, extent), element, value.sample)
    if value.rank != 2:
        raise ShapeError("the diagonal of a matrix only is supported")
    return part_of(value, broadcast_extents([value.extents[:1], value.extents[1:]]), lambda at: (at[0], at[0]))


def _turned(value: ArrayValue, axes: Sequence[int]) -> ArrayValue:
    def place(point: Point) -> Point:
        return tuple(value.extents[k] - whole(1) - at if k in axes else at for k, at in enumerate(point))

    return part_of(value, value.extents, place)


def _rolled(value: ArrayValue, by: int, axis: int) -> ArrayValue:
    """For arrays that are at least as long as they are moved by."""
    extent = value.extents[axis]

    def element(point: Point) -> ast.expr:
        at = point[axis]
        first = whole(by) if by >= 0 else extent + whole(by)
        early, late = (
            (at - whole(by) + extent, at - whole(by)) if by >= 0 else (at - whole(by), at - whole(by) - extent)
        )
        moved = [value.element((*point[:axis], one, *point[axis + 1 :])) for one in (early, late)]
        return ast.IfExp(ast.Compare(at.node, [ast.Lt()], [first.node]), *moved)

    return ArrayValue(value.extents, element, value.sample)


def _joined(values: Sequence[ArrayValue], axis: int, *, is_in_last: bool) -> ArrayValue:
    """One after the other along one dimension."""
    if not values or any(value.rank != values[0].rank or not value.rank for value in values):
        raise ShapeError("arrays of the same number of dimensions, named one by one, can be joined")
    rank = values[0].rank
    axis = min(1, rank - 1) if is_in_last else axis % rank
    extents = list(values[0].extents)
    for value in values[1:]:
        for k in range(rank):
            if k == axis:
                extents[k] += value.extents[k]
            elif not value.extents[k].equals(extents[k]):
                broadcast_extents([[value.extents[k]], [extents[k]]])
                raise ShapeError("arrays that are joined have the same other sizes")

    def element(point: Point) -> ast.expr:
        starts = [whole(0)]
        for value in values[:-1]:
            starts.append(starts[-1] + value.extents[axis])
        parts = [
            value.element((*point[:axis], point[axis] - start, *point[axis + 1 :]))
            for value, start in zip(values, starts, strict=True)
        ]
        chosen = parts[-1]
        for part, end in zip(parts[-2::-1], starts[:0:-1], strict=True):
            chosen = ast.IfExp(ast.Compare(point[axis].node, [ast.Lt()], [end.node]), part, chosen)
        return chosen

    sample = np.concatenate([np.ones(1, value.dtype) for value in values])
    return computed(elementwise([ArrayValue(tuple(extents), element, sample)], lambda parts: parts[0], sample))
