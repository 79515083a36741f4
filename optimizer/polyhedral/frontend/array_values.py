"""Values over whole arrays: their extents and type, and each of their elements as an expression over numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from optimizer.polyhedral.frontend.quantities import Quantity, UnequalSizes, whole

Point: TypeAlias = tuple[Quantity, ...]
"""One position in each dimension."""
Build: TypeAlias = Callable[[list[ast.expr]], ast.expr]
"""An expression over some others."""


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A value of `len(extents)` dimensions; of none, a number."""

    extents: tuple[Quantity, ...]
    element: Callable[[Point], ast.expr]
    sample: Any
    """A value of the same type: a NumPy array or number, or a Python number, which takes the type of what it meets."""
    array: str | None = None
    """The array that it is a part of, for what stands in memory."""
    starts: tuple[Quantity, ...] = ()
    """Where a loop over each dimension begins best: where a slice does, so that it counts what the array counts."""

    is_empty: bool = False
    """Whether its elements are not set yet."""

    def start(self, dimension: int) -> Quantity:
        return self.starts[dimension] if self.starts else whole(0)

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def dtype(self) -> str:
        """NumPy's name of its type."""
        return np.asarray(self.sample).dtype.name


def scalar(node: ast.expr, sample: Any = 1.0) -> ArrayValue:
    return ArrayValue((), lambda _: node, sample)


def named_array(name: str, dtype: str, extents: Sequence[Quantity]) -> ArrayValue:
    """The whole of an array."""

    def element(point: Point) -> ast.expr:
        nodes = [at.node for at in point]
        index = nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, ast.Load())
        return ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())

    return ArrayValue(tuple(extents), element, np.ones(1, dtype), name)


def part_of(
    value: ArrayValue, extents: Sequence[Quantity], place: Callable[[Point], Point], starts: Sequence[Quantity] = ()
) -> ArrayValue:
    """Another view of the same elements: `place` says which of `value`'s stands at a point of the view."""
    sample = value.sample if extents else np.asarray(value.sample).ravel()[0]
    return ArrayValue(tuple(extents), lambda point: value.element(place(point)), sample, value.array, tuple(starts))


def transposed(value: ArrayValue, order: Sequence[int]) -> ArrayValue:
    """Dimension k of the result is dimension `order[k]` of the value."""

    def place(point: Point) -> Point:
        return tuple(point[order.index(k)] for k in range(value.rank))

    return part_of(value, [value.extents[k] for k in order], place, [value.start(k) for k in order])


def binary(operator: ast.operator) -> Build:
    return lambda parts: ast.BinOp(parts[0], operator, parts[1])


def elementwise(values: Sequence[ArrayValue], build: Build, sample: Any) -> ArrayValue:
    """One result an element, under NumPy's broadcasting. Raises `ShapeError`."""
    extents = broadcast_extents([value.extents for value in values])

    def element(point: Point) -> ast.expr:
        return build([value.element(own_point(value.extents, point)) for value in values])

    full = next(
        (value for value in values if all(map(Quantity.equals, value.extents, extents)) and value.rank == len(extents)),
        None,
    )
    return ArrayValue(extents, element, sample, starts=full.starts if full else ())


def broadcast_extents(shapes: Sequence[Sequence[Quantity]]) -> tuple[Quantity, ...]:
    """The extents of what arrays of these shapes make together. Raises `ShapeError`."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Quantity] = []
    for position in range(-rank, 0):
        found = whole(1)
        for extent in (shape[position] for shape in shapes if len(shape) >= -position):
            if extent.constant == 1:
                continue
            if found.constant == 1:
                found = extent
            elif not found.equals(extent):
                raise UnequalSizes(found.value, extent.value)
        result.append(found)
    return tuple(result)


def own_point(extents: Sequence[Quantity], point: Point) -> Point:
    """Where an operand of these extents stands for a point of the broadcast result."""
    last = point[len(point) - len(extents) :]
    return tuple(whole(0) if extent.constant == 1 else at for extent, at in zip(extents, last, strict=True))


def computed(value: ArrayValue) -> ArrayValue:
    """The same elements, and no longer a part of an array."""
    return replace(value, array=None)
