"""The assignment of one statement instance as Python text: its body with values in place of its iterators."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from optimizer.codegen.affine import Affine, floor_division, names_in, number, remainder, variable
from optimizer.codegen.python_text import expression_text
from optimizer.codegen.scalars import ScalarArray
from optimizer.polyhedral.nest import Statement

INLINE_USES = 1
"""A value made of several names that a body uses more often gets a name of its own."""


@dataclass(frozen=True, slots=True)
class ScalarPlace:
    """A scalar that is kept in an array, and the array's name."""

    name: str
    array: ScalarArray


def values_to_bind(statement: Statement, arguments: tuple[Affine, ...]) -> dict[str, Affine]:
    """The iterators of a statement that are worth a name of their own, with their values."""
    uses = [node.id for node in ast.walk(ast.parse(statement.body)) if isinstance(node, ast.Name)]
    named = zip(statement.iterators, arguments, strict=True)
    return {name: value for name, value in named if len(list(names_in(value))) > 1 and uses.count(name) > INLINE_USES}


@dataclass(frozen=True, slots=True)
class Subscripts:
    """How subscripts are printed. Each is proved to lie within its array; a compiler that only sees a signed number has
    to allow for Python's negative ones, which costs most of the speed of vector code."""

    unsigned: str
    """Name of the conversion that says that a subscript is not negative."""
    plain: frozenset[str]
    """Loop variables that a compiler sees to count up from 0 or more."""

    def printed(self, index: ast.expr) -> ast.expr:
        match index:
            case ast.Constant():
                return index
            case ast.Name(name) if name in self.plain:
                return index
            case _:
                return ast.Call(ast.Name(self.unsigned, ast.Load()), [index], [])


def statement_text(
    statement: Statement,
    values: Mapping[str, Affine],
    places: Mapping[str, ScalarPlace],
    subscripts: Subscripts,
    held: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The assignment with each iterator replaced by its value, each scalar by its place, and elements that are `held`
    in variables, by their text in the source, by those. An opaque statement may have several lines."""
    if statement.opaque:
        return ast.unparse(_OfOpaque(statement, values, places, subscripts).visit(ast.parse(statement.body)))
    body = _Held(held).visit(ast.parse(statement.body)) if held else ast.parse(statement.body)
    body = Substitution(statement, values, places, subscripts).visit(body)
    return ast.unparse(_TightPowers().visit(body))


class _Held(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        name = self.names.get(ast.unparse(node))
        return node if name is None else ast.Name(name, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def indices_of(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


class Substitution(ast.NodeTransformer):
    def __init__(
        self,
        statement: Statement,
        values: Mapping[str, Affine],
        places: Mapping[str, ScalarPlace],
        subscripts: Subscripts,
    ) -> None:
        self.statement, self.places, self.subscripts = statement, places, subscripts
        self.values = {name: value for name, value in values.items() if value != variable(name)}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.values:
            return parsed(expression_text(self.values[node.id]))
        if node.id in self.places:
            return self._element(self.places[node.id], node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node.value)
        simplified = [self.subscripts.printed(self._index(index)) for index in indices_of(node)]
        node.slice = simplified[0] if len(simplified) == 1 else ast.Tuple(simplified, ast.Load())
        return node

    def _index(self, index: ast.expr) -> ast.expr:
        """Simplified where something was replaced; as the source has it otherwise."""
        names = {node.id for node in ast.walk(index) if isinstance(node, ast.Name)}
        if not names & self.values.keys():
            return self.visit(index)
        value = affine_of(index, self.values)
        return self.visit(index) if value is None else parsed(expression_text(value))

    def _element(self, place: ScalarPlace, node: ast.Name) -> ast.expr:
        access = next(access for access in self.statement.accesses if access.array == node.id)
        subscripts: list[ast.expr] = []
        for subscript, lower in zip(access.subscripts, place.array.lower, strict=True):
            value = affine_of(parsed(subscript), self.values)
            if value is None:
                raise ValueError(
                    f"{self.statement.name}: the subscript {subscript} of the scalar {node.id} is not affine"
                )
            subscripts.append(self.subscripts.printed(parsed(expression_text(value - lower))))
        index = ast.Constant(0) if not subscripts else ast.Tuple(subscripts, ast.Load())
        if len(subscripts) == 1:
            index = subscripts[0]
        return ast.Subscript(ast.Name(place.name, ast.Load()), index, node.ctx)


class _OfOpaque(Substitution):
    """Subscripts stay as they are: nothing proves that what data decide counts from the start."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return node


class _TightPowers(ast.NodeTransformer):
    """Writes `x**2` where `ast.unparse` would write `x ** 2`, as formatters do for operands without operators."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        left, right = ast.unparse(node.left), ast.unparse(node.right)
        if isinstance(node.left, ast.Name | ast.Constant) and isinstance(node.right, ast.Name | ast.Constant):
            return ast.Name(f"{self._operand(left)}**{self._operand(right)}", ast.Load())
        node.left, node.right = self._protected(node.left), self._protected(node.right)
        return node

    @staticmethod
    def _operand(text: str) -> str:
        return f"({text})" if "**" in text else text

    def _protected(self, node: ast.expr) -> ast.expr:
        return ast.Name(self._operand(node.id), ast.Load()) if isinstance(node, ast.Name) else node


def parsed(text: str) -> ast.expr:
    """An expression, also one of a nest: isl writes `mod` for `%`."""
    return ast.parse(text.replace(" mod ", " % "), mode="eval").body


def affine_of(node: ast.expr, values: Mapping[str, Affine]) -> Affine | None:
    """A Python integer expression with names replaced; None when it is not one of affine terms."""
    match node:
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return number(value)
        case ast.Name(name):
            return values.get(name, variable(name))
        case ast.UnaryOp(ast.USub(), operand):
            inner = affine_of(operand, values)
            return None if inner is None else inner.times(-1)
        case ast.BinOp(left, operator, right):
            first, second = affine_of(left, values), affine_of(right, values)
            return None if first is None or second is None else _combined(first, operator, second)
        case _:
            return None


def _combined(first: Affine, operator: ast.operator, second: Affine) -> Affine | None:
    match operator:
        case ast.Add():
            return first + second
        case ast.Sub():
            return first - second
        case ast.Mult() if not second.terms:
            return first.times(second.constant)
        case ast.Mult() if not first.terms:
            return second.times(first.constant)
        case ast.FloorDiv() if not second.terms and second.constant > 0:
            return floor_division(first, second.constant)
        case ast.Mod() if not second.terms and second.constant > 0:
            return remainder(first, second.constant)
        case _:
            return None
