"""What is known about the variables of generated code, and what follows from it, by isl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    Choice,
    Comparison,
    Condition,
    FloorDivision,
    Maximum,
    Minimum,
    Relation,
    Remainder,
    Term,
    Variable,
    alternatives,
    names_in,
)
from optimizer.codegen.loop_ast import For
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Nest

OPPOSITE = {
    Relation.LESS: Relation.GREATER_EQUAL,
    Relation.LESS_EQUAL: Relation.GREATER,
    Relation.GREATER: Relation.LESS_EQUAL,
    Relation.GREATER_EQUAL: Relation.LESS,
}


class NoIslText(Exception):
    """An expression for which isl's language has no word."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Comparisons that hold at a place of the code. What isl cannot say is left out, which only makes less follow."""

    context: str
    """isl set of the admissible sizes."""
    parameters: tuple[str, ...]
    known: tuple[Comparison, ...] = ()

    @classmethod
    def of(cls, nest: Nest) -> Facts:
        return cls(nest.context, nest.parameters)

    def and_that(self, condition: Condition) -> Facts:
        """Besides, a condition holds."""
        match condition:
            case Comparison():
                return Facts(self.context, self.parameters, (*self.known, condition))
            case AllOf(conditions):
                facts = self
                for inner in conditions:
                    facts = facts.and_that(inner)
                return facts
            case _:
                return self

    def and_in(self, loop: For) -> Facts:
        """Besides, a loop is running."""
        if loop.step < 0:
            return self
        return self.and_that(AllOf(between(loop.start, Affine(((Variable(loop.iterator), 1),)), loop.stop)))

    def unproved(self, conditions: Iterable[Comparison]) -> list[Comparison]:
        """Those conditions that do not follow."""
        return [each for each in dict.fromkeys(conditions) if not self.imply(each)]

    def imply(self, condition: Comparison) -> bool:
        return self.exclude([Comparison(condition.left, OPPOSITE[condition.relation], condition.right)])

    def exclude(self, conditions: Iterable[Comparison]) -> bool:
        """Whether these cannot hold all together."""
        try:
            wanted = [comparison_text(condition) for condition in conditions]
        except NoIslText:
            return False
        all_conditions = [*self.known, *conditions]
        texts = [*wanted, *filter(None, map(_text_or_nothing, self.known))]
        names = {name for each in all_conditions for side in (each.left, each.right) for name in names_in(side)}
        variables = ", ".join(sorted(names - set(self.parameters)))
        head = f"[{', '.join(self.parameters)}] -> " if self.parameters else ""
        try:
            with operation_limit():
                found = isl.Set(f"{head}{{ [{variables}] : {' and '.join(texts) or 'true'} }}")
                return found.intersect_params(isl.Set(self.context)).is_empty()
        except isl.Error:
            return False


def between(first: Affine, value: Affine, last: Affine) -> tuple[Comparison, ...]:
    """`first <= value < last`, with an own comparison for each operand of a maximum and of a minimum."""
    return (
        *(Comparison(each, Relation.LESS_EQUAL, value) for each in alternatives(first, Maximum)),
        *(Comparison(value, Relation.LESS, each) for each in alternatives(last, Minimum)),
    )


def comparison_text(comparison: Comparison) -> str:
    """Raises NoIslText."""
    relation = "=" if comparison.relation is Relation.EQUAL else comparison.relation
    return f"({isl_text(comparison.left)}) {relation} ({isl_text(comparison.right)})"


def _text_or_nothing(comparison: Comparison) -> str:
    try:
        return comparison_text(comparison)
    except NoIslText:
        return ""


def isl_text(expression: Affine) -> str:
    """Raises NoIslText."""
    return " + ".join([*(f"{factor}*{_term(term)}" for term, factor in expression.terms), str(expression.constant)])


def _term(term: Term) -> str:
    match term:
        case Variable(name):
            return name
        case FloorDivision(operand, divisor):
            return f"floor(({isl_text(operand)})/{divisor})"
        case Remainder(operand, divisor):
            return f"(({isl_text(operand)}) mod {divisor})"
        case Minimum(operands):
            return f"min({', '.join(map(isl_text, operands))})"
        case Maximum(operands):
            return f"max({', '.join(map(isl_text, operands))})"
        case Choice():
            raise NoIslText
