"""Whether an array statement, run element by element, would read an element that it has written already."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from optimizer.polyhedral.frontend.affine import Affine, Condition, NotAffine, affine
from optimizer.polyhedral.frontend.array_values import ArrayValue, Point, own_point
from optimizer.polyhedral.frontend.quantities import counter
from optimizer.polyhedral.frontend.scope import Scope


def reads_what_it_wrote(scope: Scope, place: ArrayValue, value: ArrayValue, conditions: Sequence[Condition]) -> bool:
    """Whether that may be so when `place` gets `value` in the order of its elements, under the loops' conditions."""
    first, second = _points("first", place.rank), _points("second", place.rank)
    known = replace(scope, generated=scope.generated | {ast.unparse(at.node) for at in (*first, *second)})
    known = replace(known, generated=known.generated | set(scope.loops.values()) | _sizes(scope))
    written = place.element(first)
    for read in _reads(value.element(own_point(value.extents, second)), place.array):
        try:
            if _meet(known, place, (first, second), (written, read), conditions):
                return True
        except (NotAffine, isl.Error):
            return True
    return False


def _meet(
    scope: Scope,
    place: ArrayValue,
    points: tuple[Point, Point],
    elements: tuple[ast.expr, ast.expr],
    conditions: Sequence[Condition],
) -> bool:
    """Whether an iteration writes the element that a later one reads."""
    first, second = points
    before = _is_before(first, second)
    if not before:
        return False
    pairs = [(at, size) for point in points for at, size in zip(point, place.extents, strict=True)]
    bounds = [f"0 <= {at.value} < {size.value}" for at, size in pairs]
    same = [f"{mine} = {theirs}" for mine, theirs in zip(*(_subscripts(scope, one) for one in elements), strict=True)]
    own = {str(at.value) for point in points for at in point}
    names = {name for at in place.extents for name in at.value.names} | _sizes(scope) | set(scope.loops.values())
    names |= {name for condition in conditions for name in condition.names}
    where = " and ".join([*(f"({condition.text})" for condition in conditions), *bounds, *same, f"({before})"])
    text = f"[{', '.join(sorted(names - own))}] -> {{ [{', '.join(sorted(own))}] : {where} }}"
    return not isl.Set(text).is_empty()


def _is_before(first: Point, second: Point) -> str:
    """The isl condition that one point comes before another."""
    pairs = [(one.value, other.value) for one, other in zip(first, second, strict=True)]
    cases = [
        " and ".join([*(f"{one} = {other}" for one, other in pairs[:k]), f"{pairs[k][0]} < {pairs[k][1]}"])
        for k in range(len(pairs))
    ]
    return " or ".join(f"({case})" for case in cases)


def _reads(node: ast.expr, array: str | None) -> Iterator[ast.Subscript]:
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id == array:
            yield part


def _subscripts(scope: Scope, element: ast.expr) -> list[Affine]:
    assert isinstance(element, ast.Subscript)
    index = element.slice
    return [affine(part, scope.lookup) for part in (index.elts if isinstance(index, ast.Tuple) else [index])]


def _points(word: str, rank: int) -> Point:
    return tuple(counter(f"{word}_{k}") for k in range(rank))


def _sizes(scope: Scope) -> set[str]:
    return {name for info in scope.arrays.values() for extent in info.extents for name in extent.names}
