"""Expressions over whole arrays: their extents, and what each of their elements is as an expression over numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from optimizer.polyhedral.frontend.quantities import Quantity, whole

Point: TypeAlias = tuple[Quantity, ...]
"""One position in each dimension."""
Element: TypeAlias = Callable[[Point], ast.expr]


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A value of `len(extents)` dimensions; of none, a number."""

    extents: tuple[Quantity, ...]
    element: Element
    array: str | None = None
    """The array that it is a part of, for what stands in memory."""
    point: Callable[[Point], Point] | None = None
    """Of a part of an array: where in it an element stands."""

    @property
    def rank(self) -> int:
        return len(self.extents)


class ShapeError(Exception):
    """Extents that do not go together; the message is for people."""


def scalar(node: ast.expr) -> ArrayValue:
    return ArrayValue((), lambda _: node)


def named_array(name: str, extents: Sequence[Quantity]) -> ArrayValue:
    """The whole of an array."""
    return ArrayValue(tuple(extents), lambda point: _element_of(name, point), name, lambda point: point)


def part_of(value: ArrayValue, extents: Sequence[Quantity], place: Callable[[Point], Point]) -> ArrayValue:
    """Another view of the same elements: `place` says which of `value`'s stands at a point of the view."""
    inner = value.point
    return ArrayValue(
        tuple(extents),
        lambda point: value.element(place(point)),
        value.array,
        None if inner is None else lambda point: inner(place(point)),
    )


def transposed(value: ArrayValue, order: Sequence[int]) -> ArrayValue:
    """Dimension k of the result is dimension `order[k]` of the value."""

    def place(point: Point) -> Point:
        return tuple(point[order.index(k)] for k in range(value.rank))

    return part_of(value, [value.extents[k] for k in order], place)


def elementwise(values: Sequence[ArrayValue], build: Callable[[list[ast.expr]], ast.expr]) -> ArrayValue:
    """One result an element, under NumPy's broadcasting. Raises `ShapeError`."""
    extents = broadcast_extents([value.extents for value in values])

    def element(point: Point) -> ast.expr:
        return build([value.element(own_point(value.extents, point)) for value in values])

    return ArrayValue(extents, element)


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
                raise ShapeError(f"extents {found.value} and {extent.value} do not go together")
        result.append(found)
    return tuple(result)


def own_point(extents: Sequence[Quantity], point: Point) -> Point:
    """Where an operand of these extents stands for a point of the broadcast result."""
    last = point[len(point) - len(extents) :]
    return tuple(whole(0) if extent.constant == 1 else at for extent, at in zip(extents, last, strict=True))


def without_memory(value: ArrayValue) -> ArrayValue:
    """A value that is computed, and no longer a part of an array."""
    return replace(value, array=None, point=None)


def _element_of(name: str, point: Point) -> ast.expr:
    nodes = [at.node for at in point]
    index = nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, ast.Load())
    return ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())
