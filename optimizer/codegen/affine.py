"""Integer expressions of generated code: sums of names and of quotients, remainders, minima, maxima and choices.

Every sum is kept in one normal form (a coefficient for each term, and a constant), so that substituting one expression
into another simplifies by itself: `i` becoming `i + 1` in `i - 1` gives `i`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class FloorDivision:
    """Rounds towards minus infinity; the divisor is positive."""

    operand: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """Of the floor division: never negative; the divisor is positive."""

    operand: Affine
    divisor: int


@dataclass(frozen=True, slots=True)
class Minimum:
    operands: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Maximum:
    operands: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    condition: Condition
    then: Affine
    otherwise: Affine


Term: TypeAlias = Variable | FloorDivision | Remainder | Minimum | Maximum | Choice


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + the sum of coefficient * term; no term twice, no coefficient 0."""

    terms: tuple[tuple[Term, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Affine) -> Affine:
        if not other.terms:
            return self._plus(other.constant)
        if not self.terms:
            return other._plus(self.constant)
        total = dict(self.terms)
        for term, coefficient in other.terms:
            total[term] = total.get(term, 0) + coefficient
        terms = tuple((term, coefficient) for term, coefficient in total.items() if coefficient)
        return Affine(terms, self.constant + other.constant)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.times(-1)

    def times(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        match self.terms:
            case ((Minimum(operands) | Maximum(operands), 1),) if factor < 0 and not self.constant:
                mirrored = largest if isinstance(self.terms[0][0], Minimum) else smallest
                return mirrored(*(operand.times(factor) for operand in operands))
            case _:
                return Affine(tuple((term, c * factor) for term, c in self.terms), self.constant * factor)

    def _plus(self, number: int) -> Affine:
        """Adds inside a lone term that is no name, where it can cancel."""
        match self.terms:
            case ((Minimum(operands), 1),) if not self.constant:
                return smallest(*(operand._plus(number) for operand in operands))
            case ((Maximum(operands), 1),) if not self.constant:
                return largest(*(operand._plus(number) for operand in operands))
            case ((Choice(condition, then, otherwise), 1),) if not self.constant:
                return choice(condition, then._plus(number), otherwise._plus(number))
            case ((FloorDivision(operand, divisor), 1),) if not self.constant:
                return floor_division(operand._plus(number * divisor), divisor)
            case _:
                return Affine(self.terms, self.constant + number)

    def variable_name(self) -> str | None:
        """The name, when the whole expression is one name."""
        match self:
            case Affine(((Variable(name), 1),), 0):
                return name
            case _:
                return None


class Relation(StrEnum):
    EQUAL = "=="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Affine
    relation: Relation
    right: Affine


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Comparison | AllOf | AnyOf


def number(value: int) -> Affine:
    return Affine((), value)


def variable(name: str) -> Affine:
    return Affine(((Variable(name), 1),))


def floor_division(operand: Affine, divisor: int) -> Affine:
    if divisor == 1:
        return operand
    if not operand.terms:
        return number(operand.constant // divisor)
    if all(coefficient % divisor == 0 for _, coefficient in operand.terms):
        quotients = tuple((term, coefficient // divisor) for term, coefficient in operand.terms)
        return Affine(quotients, operand.constant // divisor)
    return Affine(((FloorDivision(operand, divisor), 1),))


def remainder(operand: Affine, divisor: int) -> Affine:
    if not operand.terms or divisor == 1:
        return number(operand.constant % divisor)
    return Affine(((Remainder(operand, divisor), 1),))


def smallest(*operands: Affine) -> Affine:
    kept = _tightest(operands, Minimum, keep_first=lambda difference: difference <= 0)
    return kept[0] if len(kept) == 1 else Affine(((Minimum(kept), 1),))


def largest(*operands: Affine) -> Affine:
    kept = _tightest(operands, Maximum, keep_first=lambda difference: difference >= 0)
    return kept[0] if len(kept) == 1 else Affine(((Maximum(kept), 1),))


def choice(condition: Condition, then: Affine, otherwise: Affine) -> Affine:
    return then if then == otherwise else Affine(((Choice(condition, then, otherwise), 1),))


def _tightest(
    operands: tuple[Affine, ...], kind: type[Minimum | Maximum], keep_first: Callable[[int], bool]
) -> tuple[Affine, ...]:
    """Nested operands of the same kind in one row, of those a constant apart only the one that decides."""
    kept: list[Affine] = []
    flat = [inner for operand in operands for inner in alternatives(operand, kind)]
    for operand in flat:
        for position, other in enumerate(kept):
            difference = other - operand
            if not difference.terms:
                kept[position] = other if keep_first(difference.constant) else operand
                break
        else:
            kept.append(operand)
    return tuple(kept)


def alternatives(expression: Affine, kind: type[Minimum | Maximum]) -> tuple[Affine, ...]:
    """The operands of a lone minimum (maximum); anything else stands for itself."""
    match expression.terms:
        case ((Minimum(operands) | Maximum(operands) as term, 1),) if not expression.constant and isinstance(
            term, kind
        ):
            return operands
        case _:
            return (expression,)


def substitute(expression: Affine, values: Mapping[str, Affine]) -> Affine:
    """The expression with names replaced."""
    total = number(0)
    for term, coefficient in expression.terms:
        total = total + _substitute_term(term, values).times(coefficient)
    return total + number(expression.constant)


def substitute_condition(condition: Condition, values: Mapping[str, Affine]) -> Condition:
    match condition:
        case Comparison(left, relation, right):
            return Comparison(substitute(left, values), relation, substitute(right, values))
        case AllOf(conditions):
            return AllOf(tuple(substitute_condition(inner, values) for inner in conditions))
        case AnyOf(conditions):
            return AnyOf(tuple(substitute_condition(inner, values) for inner in conditions))


def _substitute_term(term: Term, values: Mapping[str, Affine]) -> Affine:
    match term:
        case Variable(name):
            return values.get(name, variable(name))
        case FloorDivision(operand, divisor):
            return floor_division(substitute(operand, values), divisor)
        case Remainder(operand, divisor):
            return remainder(substitute(operand, values), divisor)
        case Minimum(operands):
            return smallest(*(substitute(operand, values) for operand in operands))
        case Maximum(operands):
            return largest(*(substitute(operand, values) for operand in operands))
        case Choice(condition, then, otherwise):
            return choice(
                substitute_condition(condition, values), substitute(then, values), substitute(otherwise, values)
            )


def coefficient_of(expression: Affine, name: str) -> int | None:
    """By how much the value grows when the name's does by 1; None when that is not always the same."""
    factor = 0
    for term, coefficient in expression.terms:
        if term == Variable(name):
            factor = coefficient
        elif name in names_in(Affine(((term, 1),))):
            return None
    return factor


def names_in(expression: Affine) -> Iterator[str]:
    """The names it depends on, each as often as it occurs."""
    for term, _ in expression.terms:
        match term:
            case Variable(name):
                yield name
            case FloorDivision(operand, _) | Remainder(operand, _):
                yield from names_in(operand)
            case Minimum(operands) | Maximum(operands):
                for operand in operands:
                    yield from names_in(operand)
            case Choice(condition, then, otherwise):
                yield from names_in_condition(condition)
                yield from names_in(then)
                yield from names_in(otherwise)


def names_in_condition(condition: Condition) -> Iterator[str]:
    match condition:
        case Comparison(left, _, right):
            yield from names_in(left)
            yield from names_in(right)
        case AllOf(conditions) | AnyOf(conditions):
            for inner in conditions:
                yield from names_in_condition(inner)
