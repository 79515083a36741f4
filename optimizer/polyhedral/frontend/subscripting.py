"""`A[i, 1:-1]`, `A[::2]`, `A[..., None]`: which elements of an array a subscript with slices takes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from optimizer.polyhedral.frontend.affine import NotAffine, affine, floor_division
from optimizer.polyhedral.frontend.array_makers import quantity
from optimizer.polyhedral.frontend.array_values import ArrayValue, Point, part_of
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError, whole
from optimizer.polyhedral.frontend.scope import Scope


def subscripted(scope: Scope, value: ArrayValue, subscripts: Sequence[ast.expr]) -> ArrayValue:
    """The part of `value` that the subscripts take.

    Raises:
        ShapeError: for more subscripts than dimensions.
        NotAffine: for a bound or a position that is no affine number.
    """
    given = _without_ellipsis(subscripts, value.rank)
    extents: list[Quantity] = []
    places: list[tuple[Quantity, int] | Quantity] = []
    """For each dimension of `value`: a position, or a start and a step along the next dimension of the result."""
    of_result: list[int] = []
    starts: list[Quantity] = []
    dimension = 0
    for subscript in given:
        if _is_newaxis(subscript):
            extents.append(whole(1))
            starts.append(whole(0))
            continue
        extent = value.extents[dimension]
        dimension += 1
        if isinstance(subscript, ast.Slice):
            start, step, size = _slice(scope, subscript, extent)
            of_result.append(len(extents))
            extents.append(size)
            starts.append(value.start(dimension - 1) + start if step == 1 else whole(0))
            places.append((start, step))
        else:
            places.append(_from_end(quantity(scope, subscript), extent))

    def place(point: Point) -> Point:
        along = iter(of_result)
        return tuple(
            each if isinstance(each, Quantity) else each[0] + point[next(along)].times(each[1]) for each in places
        )

    return part_of(value, extents, place, starts)


def _without_ellipsis(subscripts: Sequence[ast.expr], rank: int) -> list[ast.expr]:
    """One subscript for each dimension, and the new ones."""
    taken = sum(not _is_newaxis(part) and not _is_ellipsis(part) for part in subscripts)
    if taken > rank:
        raise ShapeError(f"{taken} subscripts for {rank} dimensions")
    everything: list[ast.expr] = [ast.Slice() for _ in range(rank - taken)]
    if not any(map(_is_ellipsis, subscripts)):
        return [*subscripts, *everything]
    found: list[ast.expr] = []
    for part in subscripts:
        found += everything if _is_ellipsis(part) else [part]
    return found


def _slice(scope: Scope, part: ast.Slice, extent: Quantity) -> tuple[Quantity, int, Quantity]:
    """Start, step and number of positions, for sizes at which the bounds stay inside the array."""
    step = 1 if part.step is None else affine(part.step, scope.lookup)
    if not isinstance(step, int):
        if not step.is_constant or step.constant == 0:
            raise NotAffine(part.step or part, "the step of a slice must be a whole number other than 0")
        step = step.constant
    lower = None if part.lower is None else _from_end(quantity(scope, part.lower), extent)
    upper = None if part.upper is None else _from_end(quantity(scope, part.upper), extent)
    if step > 0:
        start, end = lower or whole(0), upper or extent
        span = end - start
    else:
        start, end = lower or extent - whole(1), upper or whole(-1)
        span = start - end
    if abs(step) == 1:
        return start, step, span
    steps = abs(step)
    rounded = span + whole(steps - 1)
    node = ast.BinOp(rounded.node, ast.FloorDiv(), ast.Constant(steps))
    return start, step, Quantity(floor_division(rounded.value, steps), node)


def _from_end(position: Quantity, extent: Quantity) -> Quantity:
    """A negative constant counts from the end."""
    return extent + position if position.constant is not None and position.constant < 0 else position


def is_over_many(node: ast.expr) -> bool:
    """Whether a subscript takes more than one position, or adds a dimension."""
    return isinstance(node, ast.Slice) or _is_newaxis(node) or _is_ellipsis(node)


def _is_newaxis(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None) | ast.Attribute(attr="newaxis"):
            return True
        case _:
            return False


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
