"""Tuples that stand for their parts: `shape = A.shape`, `size = (n, m)`, and tuples of numbers of the module."""

from __future__ import annotations

import ast

from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.functions import is_number
from optimizer.polyhedral.frontend.names import FunctionNames
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.substitution import Substituted


def without_tuples(module: Module, function: ast.FunctionDef) -> ast.FunctionDef:
    """A copy of the function in which what a tuple consists of stands where its name did."""
    function = copied(function)
    names = FunctionNames.of(function)
    # An argument has a value before its first assignment.
    names.assigned.update(part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg))
    own = names.assigned.keys() | names.loops
    values: dict[str, ast.expr] = {
        name: value for name, value in module.constants.items() if name not in own and _is_of_numbers(module, value)
    }
    body: list[ast.stmt] = []
    for line in function.body:
        line = _Parts().visit(Substituted(values).visit(line))
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if names.assigned[name] == 1 and (
                _is_steady_tuple(value, names) and name not in names.loops
            ):
                values[name] = value
            case _:
                body.append(line)
    function.body = body or [ast.Pass()]
    return ast.fix_missing_locations(function)


def _is_of_numbers(module: Module, value: ast.expr) -> bool:
    return isinstance(value, ast.Tuple) and all(is_number(module, part) for part in value.elts)


def _is_steady_tuple(value: ast.expr, names: FunctionNames) -> bool:
    """Whether it is a tuple whose parts never change: constants, sizes, and names with one value."""
    match value:
        case ast.Attribute(value=ast.Name(id=array), attr="shape"):
            return _has_one_value(names, array)
        case ast.Subscript(value=ast.Attribute(attr="shape") as shape, slice=ast.Slice()):
            return _is_steady_tuple(shape, names)
        case ast.Tuple(elts=parts):
            return all(_is_steady(part, names) for part in parts)
        case _:
            return False


def _is_steady(node: ast.expr, names: FunctionNames) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return _has_one_value(names, name)
        case ast.BinOp(left=left, right=right):
            return _is_steady(left, names) and _is_steady(right, names)
        case ast.UnaryOp(operand=operand):
            return _is_steady(operand, names)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=array), attr="shape")):
            return _has_one_value(names, array)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)]):
            return _has_one_value(names, array)
        case _:
            return False


def _has_one_value(names: FunctionNames, name: str) -> bool:
    return names.assigned[name] <= 1 and name not in names.loops


class _Parts(ast.NodeTransformer):
    """`(a, b)[0]` is `a`, and `len((a, b))` is 2."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        visited = self.generic_visit(node)
        match visited:
            case ast.Subscript(value=ast.Tuple(elts=parts), slice=index):
                try:
                    position = ast.literal_eval(index)
                except ValueError:
                    return visited
                is_there = isinstance(position, int) and -len(parts) <= position < len(parts)
                return parts[position] if is_there else visited
            case ast.expr():
                return visited
            case _:
                return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        visited = self.generic_visit(node)
        match visited:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Tuple(elts=parts)], keywords=[]):
                return ast.copy_location(ast.Constant(len(parts)), node)
            case ast.expr():
                return visited
            case _:
                return node
