"""Affine integer expressions and conditions: from Python syntax trees to isl texts.

Quasi-affine: floor division and remainder by a constant, `min` and `max` may occur; isl knows them all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


class NotAffine(Exception):
    """An expression is not affine: at which node, and why, in words that follow a colon."""

    def __init__(self, node: ast.expr, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of integer multiples of terms and a constant; a term is a variable or isl text, quasi-affine."""

    terms: Mapping[str, int]
    constant: int
    names: frozenset[str]
    """Every variable in it, also those inside quasi-affine terms."""

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_linear(self) -> bool:
        """Without division, remainder, `min` and `max`: its text is Python and isl alike."""
        return self.names.issuperset(self.terms)

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            terms[term] = terms.get(term, 0) + factor
        kept = {term: factor for term, factor in terms.items() if factor}
        return Affine(kept, self.constant + other.constant, self.names | other.names)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return number(0)
        return Affine({term: own * factor for term, own in self.terms.items()}, self.constant * factor, self.names)

    def __str__(self) -> str:
        text = ""
        for term, factor in self.terms.items():
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += sign + (term if abs(factor) == 1 else f"{abs(factor)}*{term}")
        if not text:
            return str(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


def number(value: int) -> Affine:
    return Affine({}, value, frozenset())


def variable(name: str) -> Affine:
    return Affine({name: 1}, 0, frozenset({name}))


@dataclass(frozen=True, slots=True)
class Condition:
    """An isl formula and the variables in it."""

    text: str
    names: frozenset[str]

    def negated(self) -> Condition:
        return Condition(f"not ({self.text})", self.names)


Lookup: TypeAlias = Callable[[ast.expr], Affine | None]
"""Says what a name (or `A.shape[0]`, `len(A)`) stands for; None or `NotAffine` for what is no affine quantity."""


def affine(node: ast.expr, lookup: Lookup) -> Affine:
    """The affine expression that `node` is.

    Raises:
        NotAffine: when it is none.
    """
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return number(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return affine(operand, lookup).scaled(-1)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return affine(operand, lookup)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return affine(left, lookup) + affine(right, lookup)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return affine(left, lookup) - affine(right, lookup)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _product(node, affine(left, lookup), affine(right, lookup))
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as operator, right=right):
            return _quotient(node, operator, affine(left, lookup), affine(right, lookup))
        case ast.BinOp(op=ast.Div()):
            raise NotAffine(node, "`/` gives a float (write `//` for whole numbers)")
        case ast.BinOp():
            raise NotAffine(node, f"`{ast.unparse(node)}` uses an operator other than `+ - * // %`")
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_], keywords=[]):
            return _extreme(name, [affine(argument, lookup) for argument in node.args])
        case ast.IfExp() if (found := as_extreme(node)) is not None:
            return affine(found, lookup)
        case ast.Call(func=ast.Name(id="abs"), args=[argument], keywords=[]):
            inner = affine(argument, lookup)
            return _extreme("max", [inner, inner.scaled(-1)])
        case _:
            if (found := lookup(node)) is not None:
                return found
            raise NotAffine(node, f"`{ast.unparse(node)}` is not built from loop variables, sizes and whole numbers")


def as_extreme(node: ast.IfExp) -> ast.Call | None:
    """`min(a, b)` or `max(a, b)` for `a if a < b else b` of whole numbers, and so on; None for any other choice."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[right]):
            smaller, greater = ast.dump(left), ast.dump(right)
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()], comparators=[right]):
            smaller, greater = ast.dump(right), ast.dump(left)
        case _:
            return None
    names = {(smaller, greater): "min", (greater, smaller): "max"}
    name = names.get((ast.dump(node.body), ast.dump(node.orelse)))
    if name is None:
        return None
    call = ast.Call(ast.Name(name, ast.Load()), [node.body, node.orelse], [])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def condition(node: ast.expr, lookup: Lookup) -> Condition:
    """The isl formula that `node` is: comparisons of affine expressions, joined by `and`, `or`, `not`.

    Raises:
        NotAffine: when it is none.
    """
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return _joined("and", [condition(value, lookup) for value in values])
        case ast.BoolOp(values=values):
            return _joined("or", [condition(value, lookup) for value in values])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return condition(operand, lookup).negated()
        case ast.Constant(value=bool() as value):
            return Condition("true" if value else "false", frozenset())
        case ast.Compare(left=left, ops=operators, comparators=comparators):
            sides = [affine(side, lookup) for side in (left, *comparators)]
            signs = [_sign(node, operator) for operator in operators]
            parts = [f"{low} {sign} {high}" for low, sign, high in zip(sides, signs, sides[1:], strict=False)]
            return Condition(" and ".join(parts), frozenset[str]().union(*(side.names for side in sides)))
        case _:
            value = affine(node, lookup)
            return Condition(f"{value} != 0", value.names)


def _sign(node: ast.expr, operator: ast.cmpop) -> str:
    match operator:
        case ast.Lt():
            return "<"
        case ast.LtE():
            return "<="
        case ast.Gt():
            return ">"
        case ast.GtE():
            return ">="
        case ast.Eq():
            return "="
        case ast.NotEq():
            return "!="
        case _:
            raise NotAffine(node, "`is` and `in` do not compare numbers")


def _joined(word: str, parts: list[Condition]) -> Condition:
    text = f" {word} ".join(f"({part.text})" if " or " in part.text or word == "or" else part.text for part in parts)
    return Condition(text, frozenset[str]().union(*(part.names for part in parts)))


def _product(node: ast.expr, left: Affine, right: Affine) -> Affine:
    if left.is_constant:
        return right.scaled(left.constant)
    if right.is_constant:
        return left.scaled(right.constant)
    raise NotAffine(node, f"`{ast.unparse(node)}` multiplies two variables")


def _quotient(node: ast.expr, operator: ast.operator, left: Affine, right: Affine) -> Affine:
    """Python's `//` and `%`: rounded down, the remainder with the sign of the divisor."""
    if not right.is_constant or right.constant == 0:
        raise NotAffine(node, f"`{ast.unparse(node)}` does not divide by a constant")
    divisor = right.constant
    if divisor < 0:
        left, divisor = left.scaled(-1), -divisor
    if isinstance(operator, ast.FloorDiv):
        return floor_division(left, divisor)
    rest = number(left.constant % divisor) if left.is_constant else _term(f"(({left}) mod {divisor})", left.names)
    return rest.scaled(-1) if right.constant < 0 else rest


def floor_division(value: Affine, divisor: int) -> Affine:
    """Rounded down; the divisor is above 0."""
    if all(factor % divisor == 0 for factor in value.terms.values()):
        terms = {term: factor // divisor for term, factor in value.terms.items()}
        return Affine(terms, value.constant // divisor, value.names)
    return _term(f"floor(({value})/{divisor})", value.names)


def _extreme(name: str, sides: list[Affine]) -> Affine:
    if all(side.is_constant for side in sides):
        constants = [side.constant for side in sides]
        return number(min(constants) if name == "min" else max(constants))
    text = str(sides[0])
    for side in sides[1:]:
        text = f"{name}({text}, {side})"
    return _term(text, frozenset[str]().union(*(side.names for side in sides)))


def _term(text: str, names: frozenset[str]) -> Affine:
    return Affine({text: 1}, 0, names)


def expression_of(linear: Affine) -> ast.expr:
    """The Python expression of a linear affine expression."""
    return ast.parse(str(linear), mode="eval").body
