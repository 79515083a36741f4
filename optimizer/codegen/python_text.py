"""Expressions of the loop AST as Python text."""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    AnyOf,
    Choice,
    Comparison,
    Condition,
    FloorDivision,
    Maximum,
    Minimum,
    Remainder,
    Term,
    Variable,
)


def expression_text(expression: Affine) -> str:
    """Python for an expression; what is subtracted comes last."""
    pieces = [(coefficient, _product(abs(coefficient), term)) for term, coefficient in expression.terms]
    if expression.constant or not pieces:
        pieces.append((expression.constant, str(abs(expression.constant))))
    pieces.sort(key=lambda piece: piece[0] < 0)
    (first_sign, first), *rest = pieces
    if first_sign < 0:
        # A leading minus binds more tightly than a division, which it is meant to negate.
        first = f"-({first})" if "//" in first or "%" in first else f"-{first}"
    return first + "".join(f" {'-' if sign < 0 else '+'} {text}" for sign, text in rest)


def _product(coefficient: int, term: Term) -> str:
    if coefficient == 1:
        return f"({_term(term)})" if isinstance(term, Choice) else _term(term)
    is_atomic = isinstance(term, Variable | Minimum | Maximum)
    return f"{coefficient} * {_term(term) if is_atomic else f'({_term(term)})'}"


def _term(term: Term) -> str:
    match term:
        case Variable(name):
            return name
        case FloorDivision(operand, divisor):
            return f"{_factor(operand)} // {divisor}"
        case Remainder(operand, divisor):
            return f"{_factor(operand)} % {divisor}"
        case Minimum(operands):
            return f"min({', '.join(map(expression_text, operands))})"
        case Maximum(operands):
            return f"max({', '.join(map(expression_text, operands))})"
        case Choice(condition, then, otherwise):
            return f"{expression_text(then)} if {condition_text(condition)} else {expression_text(otherwise)}"


def _factor(expression: Affine) -> str:
    """As the left operand of a division."""
    match expression:
        case Affine(((Variable() | Minimum() | Maximum(), 1),), 0):
            return expression_text(expression)
        case _:
            return f"({expression_text(expression)})"


def condition_text(condition: Condition, inside: type[AllOf | AnyOf] | None = None) -> str:
    """Python for a condition; `inside`: what it is an operand of."""
    match condition:
        case Comparison(left, relation, right):
            return f"{expression_text(left)} {relation} {expression_text(right)}"
        case AllOf(()):
            return "True"
        case AnyOf(()):
            return "False"
        case AllOf(conditions):
            return " and ".join(condition_text(inner, AllOf) for inner in conditions)
        case AnyOf(conditions):
            text = " or ".join(condition_text(inner, AnyOf) for inner in conditions)
            return f"({text})" if inside is AllOf else text


def allocation_text(fill: str, dtype: str, extents: Sequence[str]) -> str:
    """A new array: `np.empty((n, m), dtype=np.int64)`."""
    shape = extents[0] if len(extents) == 1 else f"({', '.join(extents)})"
    given = {"float64": "", "bool": ", dtype=np.bool_"}.get(dtype, f", dtype=np.{dtype}")
    return f"np.{fill}({shape}{given})"
