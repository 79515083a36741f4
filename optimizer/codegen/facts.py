"""What is known about the variables of generated code, and what follows from it, by isl."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    Comparison,
    Condition,
    Maximum,
    Minimum,
    Relation,
    Variable,
    alternatives,
    names_in,
)
from optimizer.codegen.isl_text import NoIslText, comparison_text
from optimizer.codegen.loop_ast import For
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Nest

OPPOSITES = {
    Relation.EQUAL: (Relation.LESS, Relation.GREATER),
    Relation.LESS: (Relation.GREATER_EQUAL,),
    Relation.LESS_EQUAL: (Relation.GREATER,),
    Relation.GREATER: (Relation.LESS_EQUAL,),
    Relation.GREATER_EQUAL: (Relation.LESS,),
}
"""One of them holds where a relation does not."""


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

    def and_bound(self, name: str, value: Affine) -> Facts:
        """Besides, a name has a value now; what was known of an earlier one of that name is forgotten."""
        names = {each: {*names_in(each.left), *names_in(each.right)} for each in self.known}
        kept = tuple(each for each in self.known if name not in names[each])
        facts = Facts(self.context, self.parameters, kept)
        if name in names_in(value):
            return facts
        return facts.and_that(Comparison(Affine(((Variable(name), 1),)), Relation.EQUAL, value))

    def and_in(self, loop: For) -> Facts:
        """Besides, a loop is running."""
        if loop.step < 0:
            return self
        return self.and_that(AllOf(between(loop.start, Affine(((Variable(loop.iterator), 1),)), loop.stop)))

    def unproved(self, conditions: Iterable[Comparison]) -> list[Comparison]:
        """Those conditions that do not follow."""
        return [each for each in dict.fromkeys(conditions) if not self.imply(each)]

    def imply(self, condition: Comparison) -> bool:
        opposites = OPPOSITES[condition.relation]
        return all(self.exclude([Comparison(condition.left, opposite, condition.right)]) for opposite in opposites)

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


def _text_or_nothing(comparison: Comparison) -> str:
    try:
        return comparison_text(comparison)
    except NoIslText:
        return ""
