"""Sizes that have no name in the source, and are the same because a statement combines their arrays.

    def f(a, b): return a + b          a and b have one size, which is told when they meet

Who runs the function with arrays of other sizes gets an error, as for sizes that annotations declare to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from optimizer.polyhedral.frontend.affine import Affine, number, variable
from optimizer.polyhedral.frontend.quantities import UnequalSizes
from optimizer.polyhedral.frontend.shapes import Shapes

Result = TypeVar("Result")


class SizesMeet(Exception):
    """Two sizes are the same, as is found out in the middle of a function: read it again with one name for them."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} = {second}")
        self.first, self.second = first, second


@dataclass(frozen=True, slots=True)
class FreeSizes:
    """Which sizes may turn out to be the same."""

    unnamed: frozenset[str] = frozenset()
    """Sizes of dimensions that no annotation names."""
    others: frozenset[str] = frozenset()
    """Integer arguments and named sizes."""

    def check(self, problem: Exception) -> None:
        """Raises `SizesMeet` for two sizes one of which is unnamed."""
        names = problem.names() if isinstance(problem, UnequalSizes) else None
        if names is None:
            return
        first, second = names
        for kept, dropped in ((first, second), (second, first)):
            if dropped in self.unnamed and kept in self.unnamed | self.others:
                raise SizesMeet(kept, dropped) from None


def with_equal_sizes(
    shapes: Shapes,
    unnamed: frozenset[str],
    examples: Mapping[str, Any],
    read: Callable[[Shapes], Result],
    most: int = 64,
) -> Result:
    """What `read` makes of the function, with one name for all sizes that meet.

    Where one of two is 1 in the example arguments and the other is not, it is 1: then one array is repeated.
    """
    for _ in range(most):
        try:
            return read(shapes)
        except SizesMeet as found:
            first, second = (_example(shapes, examples, name) for name in (found.first, found.second))
            if first == 1 and second not in (1, None) and found.first in unnamed:
                shapes = _substituted(shapes, found.first, number(1))
            elif second == 1 and first not in (1, None):
                shapes = _substituted(shapes, found.second, number(1))
            else:
                shapes = _substituted(shapes, found.second, variable(found.first))
    return read(shapes)


def _example(shapes: Shapes, examples: Mapping[str, Any], name: str) -> int | None:
    for symbol, array, dimension in shapes.symbols:
        if symbol == name and array in examples:
            return int(examples[array].shape[dimension])
    return int(examples[name]) if isinstance(examples.get(name), int) else None


def _substituted(shapes: Shapes, name: str, value: Affine) -> Shapes:
    extents = {array: tuple(_replaced(own, name, value) for own in every) for array, every in shapes.extents.items()}
    kept = tuple(symbol for symbol in shapes.symbols if symbol[0] != name)
    return Shapes(extents, kept)


def _replaced(extent: Affine, name: str, value: Affine) -> Affine:
    found = number(extent.constant)
    for own, factor in extent.terms.items():
        found += (value if own == name else variable(own)).scaled(factor)
    return found
