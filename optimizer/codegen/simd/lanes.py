"""A vector where nothing is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def by_lane(function: Callable[..., Any]) -> Any:
    """The function for vectors, or for vectors and numbers that are the same in all lanes."""

    def compute(*operands: Any) -> Any:
        count = next(len(operand) for operand in operands if isinstance(operand, Lanes))
        return Lanes(
            map(function, *(operand if isinstance(operand, Lanes) else [operand] * count for operand in operands))
        )

    return compute


def either_way(function: Callable[..., Any]) -> tuple[Any, Any]:
    """An operator with the vector on the left, and with the vector on the right."""
    compute = by_lane(function)
    return compute, lambda right, left: compute(left, right)


class Lanes:
    """The numbers of all lanes. Each is computed with alone, so that it has the value and the type of scalar code."""

    __slots__ = ("_numbers",)
    __array_ufunc__ = None
    """NumPy's numbers leave operators to this class."""

    def __init__(self, numbers: Iterable[Any]) -> None:
        self._numbers = tuple(numbers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    __add__, __radd__ = either_way(operator.add)
    __sub__, __rsub__ = either_way(operator.sub)
    __mul__, __rmul__ = either_way(operator.mul)
    __truediv__, __rtruediv__ = either_way(operator.truediv)
    __neg__, __abs__ = by_lane(operator.neg), by_lane(abs)
    __lt__, __le__, __gt__, __ge__ = map(by_lane, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = by_lane(operator.eq), by_lane(operator.ne)
    __and__, __or__, __invert__ = by_lane(operator.and_), by_lane(operator.or_), by_lane(operator.not_)
