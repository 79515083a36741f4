"""Places in a generated module's kernel function and the functions that it calls for its work, and how to change the
code there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MAKES_VECTORS = ("load", "gather", "splat")
"""Operations of vector code whose last argument is how many lanes there are."""
LOADS = ("load", "load_masked", "gather", "gather_masked")
STORES = ("store", "store_masked", "scatter")
DataAssignment = ast.Assign | ast.AugAssign


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a function that does the kernel's work with the nodes around it, from the function inwards."""

    node: ast.AST
    parents: tuple[ast.AST, ...]

    @property
    def function(self) -> ast.FunctionDef:
        function = self.parents[0]
        assert isinstance(function, ast.FunctionDef)
        return function

    @property
    def parent(self) -> ast.AST:
        return self.parents[-1]

    @property
    def path(self) -> tuple[ast.AST, ...]:
        return (*self.parents, self.node)

    @property
    def loops(self) -> list[ast.For]:
        """The loops whose bodies it lies in, outermost first."""
        return [
            parent
            for parent, child in zip(self.parents, self.path[1:], strict=True)
            if isinstance(parent, ast.For) and child is not parent.iter and child is not parent.target
        ]

    @property
    def is_in_bounds(self) -> bool:
        """Whether it is a part of some loop's `range(...)`."""
        return any(
            isinstance(parent, ast.For) and child is parent.iter
            for parent, child in zip(self.parents, self.path[1:], strict=True)
        )

    @property
    def is_in_condition(self) -> bool:
        """Whether it is a part of what a guard asks."""
        return any(
            isinstance(parent, ast.If) and child is parent.test
            for parent, child in zip(self.parents, self.path[1:], strict=True)
        )

    @property
    def is_in_index(self) -> bool:
        """Whether it is a part of a subscript."""
        return any(
            isinstance(parent, ast.Subscript) and child is parent.slice
            for parent, child in zip(self.parents, self.path[1:], strict=True)
        )

    @property
    def is_in_value(self) -> bool:
        """Whether it is computed with, and no subscript."""
        return not self.is_in_index and any(
            isinstance(parent, ast.Assign | ast.AugAssign)
            and child is parent.value
            and computes_data(parent, self.function)
            for parent, child in zip(self.parents, self.path[1:], strict=True)
        )

    @property
    def block(self) -> list[ast.stmt]:
        """The statements among which it stands."""
        for _, value in ast.iter_fields(self.parent):
            if isinstance(value, list) and any(item is self.node for item in value):
                return value
        raise ValueError("only a statement stands in a block")

    def replace(self, *nodes: ast.AST) -> None:
        """Put other nodes in its place; a statement may be replaced by none or several."""
        for field, value in ast.iter_fields(self.parent):
            if value is self.node:
                setattr(self.parent, field, nodes[0])
                return
            if isinstance(value, list):
                for position, item in enumerate(value):
                    if item is self.node:
                        value[position : position + 1] = nodes
                        if not value and isinstance(item, ast.stmt):
                            value.append(ast.Pass())
                        return
        raise ValueError("the node is not a child of its parent")


def kernel_function(module: ast.Module) -> ast.FunctionDef:
    """Generated modules end with it."""
    return [node for node in module.body if isinstance(node, ast.FunctionDef)][-1]


def work_functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """The kernel function, then those that it calls to write to arrays for it."""
    kernel = kernel_function(module)
    yield kernel
    names = {called(node) for node in ast.walk(kernel)}
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node is not kernel and node.name in names and _writes(node):
            yield node


def _writes(function: ast.FunctionDef) -> bool:
    return bool(written_arrays(function)) or any(called(node) in STORES for node in ast.walk(function))


def sites(module: ast.Module) -> Iterator[Site]:
    """Every place in these functions but their decorators, their signatures and the checks of arguments."""
    for function in work_functions(module):
        for statement in function.body:
            if not is_check(statement):
                yield from _sites(statement, (function,))


def _sites(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[Site]:
    yield Site(node, parents)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context | ast.operator | ast.cmpop):
            yield from _sites(child, (*parents, node))


def is_check(statement: ast.stmt) -> bool:
    """Whether it reads a size or refuses arguments."""
    match statement:
        case ast.If(body=[ast.Raise()]):
            return True
        case ast.Assign(value=ast.Subscript(value=ast.Attribute(attr="shape"))):
            return True
        case _:
            return False


def computes_data(statement: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether an assignment is one of the kernel's statements, and not the name of an index or new memory."""
    match statement:
        case ast.AugAssign():
            return True
        case ast.Assign(targets=[ast.Subscript()]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name("np"), attr="zeros" | "empty" | "ones"))):
            return False
        case ast.Assign(value=value):
            return _is_data(value, vector_names(function))
        case _:
            return False


def _is_data(value: ast.expr, vectors: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Subscript | ast.Div)
        or (isinstance(node, ast.Constant) and isinstance(node.value, float))
        or (isinstance(node, ast.Name) and node.id in vectors)
        or called(node) in LOADS
        for node in ast.walk(value)
    )


@lru_cache(maxsize=64)
def vector_names(function: ast.FunctionDef) -> frozenset[str]:
    """The variables that a function loads vectors into."""
    return frozenset(
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and called(node.value) in LOADS
    )


def array_name(node: ast.AST) -> str | None:
    """The array of a subscript."""
    match node:
        case ast.Subscript(value=ast.Name(name)):
            return name
        case _:
            return None


def indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def ranks(function: ast.FunctionDef) -> dict[str, int]:
    """How many subscripts each array has."""
    return {
        name: len(indices(node))
        for statement in function.body
        if not is_check(statement)
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript) and (name := array_name(node))
    }


def written_arrays(function: ast.FunctionDef) -> set[str]:
    return {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and (name := array_name(node))
    }


def argument_arrays(function: ast.FunctionDef) -> list[str]:
    known = ranks(function)
    return [argument.arg for argument in function.args.args if argument.arg in known]


def called(node: ast.AST) -> str:
    """The name of the function that is called."""
    match node:
        case ast.Call(func=ast.Name(name)):
            return name
        case _:
            return ""


def has_vectors(node: ast.AST, variables: frozenset[str] = frozenset()) -> bool:
    """Whether it computes with vectors, some of which may be in these variables."""
    return any(
        called(inner) in (*MAKES_VECTORS, *LOADS) or (isinstance(inner, ast.Name) and inner.id in variables)
        for inner in ast.walk(node)
    )


def is_range(node: ast.AST, *names: str) -> bool:
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(name))):
            return name in (names or ("range", "prange"))
        case _:
            return False


def bounds(loop: ast.For) -> tuple[ast.expr, ast.expr, ast.expr]:
    """Start, stop and step."""
    assert isinstance(loop.iter, ast.Call)
    match loop.iter.args:
        case [stop]:
            return ast.Constant(0), stop, ast.Constant(1)
        case [start, stop]:
            return start, stop, ast.Constant(1)
        case [start, stop, step]:
            return start, stop, step
        case _:
            raise ValueError("a range has one to three arguments")


def set_bounds(loop: ast.For, start: ast.expr, stop: ast.expr, step: ast.expr) -> None:
    assert isinstance(loop.iter, ast.Call)
    is_one = isinstance(step, ast.Constant) and step.value == 1
    loop.iter.args = [start, stop] if is_one else [start, stop, step]


def expression(text: str, **parts: ast.expr) -> ast.expr:
    """The expression of a text in which names stand for other expressions."""
    return _Filling(parts).visit(ast.parse(text, mode="eval").body)


def statements(text: str, **parts: ast.expr) -> list[ast.stmt]:
    return _Filling(parts).visit(ast.parse(text)).body


class _Filling(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr]) -> None:
        self.parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        part = self.parts.get(node.id)
        return node if part is None else ast.parse(ast.unparse(part), mode="eval").body
