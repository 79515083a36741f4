"""Between which values an expression stays while loops run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from optimizer.codegen.affine import (
    Affine,
    Choice,
    FloorDivision,
    Maximum,
    Minimum,
    Remainder,
    Term,
    Variable,
    alternatives,
    floor_division,
    largest,
    names_in,
    number,
    smallest,
    variable,
)
from optimizer.codegen.loop_ast import For

Ranges: TypeAlias = Mapping[str, tuple[Affine, Affine]]
"""Name -> the least and the greatest value that it may have."""


class NoRange(Exception):
    """Why nothing can be said of the values of an expression."""


def ranges_of(loops: Iterable[For]) -> Ranges:
    """Of the variables of loops inside each other, outermost first, in terms of what is outside of all of them.

    Each may be wider than needed, never narrower. Raises NoRange.
    """
    found: dict[str, tuple[Affine, Affine]] = {}
    for loop in loops:
        if loop.step < 0:
            raise NoRange(f"{loop.iterator} runs downwards")
        found[loop.iterator] = least(loop.start, found), greatest(loop.stop, found) + number(-1)
    return found


def least(expression: Affine, ranges: Ranges) -> Affine:
    """A lower limit; raises NoRange."""
    return _limit(expression, ranges, 0)


def greatest(expression: Affine, ranges: Ranges) -> Affine:
    """An upper limit; raises NoRange."""
    return _limit(expression, ranges, 1)


def span(first: Affine, last: Affine) -> Affine:
    """How many numbers there are from `first` to `last`; not more than 0 if there are none."""
    starts, ends = alternatives(first, Maximum), alternatives(last, Minimum)
    return smallest(*(end - start + number(1) for start in starts for end in ends))


def _limit(expression: Affine, ranges: Ranges, end: int) -> Affine:
    total = number(expression.constant)
    for term, factor in expression.terms:
        total = total + _term(term, ranges, end if factor > 0 else 1 - end).times(factor)
    return total


def _term(term: Term, ranges: Ranges, end: int) -> Affine:
    whole = Affine(((term, 1),))
    if not ranges.keys() & set(names_in(whole)):
        return whole
    match term:
        case Variable(name):
            return ranges[name][end] if name in ranges else variable(name)
        case FloorDivision(operand, divisor):
            return floor_division(_limit(operand, ranges, end), divisor)
        case Remainder(_, divisor):
            return number((0, divisor - 1)[end])
        case Minimum(operands):
            return smallest(*(_limit(operand, ranges, end) for operand in operands))
        case Maximum(operands):
            return largest(*(_limit(operand, ranges, end) for operand in operands))
        case Choice():
            raise NoRange("it depends on conditions")
