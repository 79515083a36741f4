"""Our integer expressions as isl's text."""

from __future__ import annotations

from optimizer.codegen.affine import (
    Affine,
    Choice,
    Comparison,
    FloorDivision,
    Maximum,
    Minimum,
    Relation,
    Remainder,
    Term,
    Variable,
)


class NoIslText(Exception):
    """An expression for which isl's language has no word."""


def isl_text(expression: Affine) -> str:
    """Raises NoIslText."""
    pieces = [f"{factor}*{_term(term)}" for term, factor in expression.terms]
    return " + ".join([*pieces, str(expression.constant)])


def comparison_text(comparison: Comparison) -> str:
    """Raises NoIslText."""
    relation = "=" if comparison.relation is Relation.EQUAL else comparison.relation
    return f"({isl_text(comparison.left)}) {relation} ({isl_text(comparison.right)})"


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
