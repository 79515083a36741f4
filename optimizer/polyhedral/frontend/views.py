"""Parts of arrays that stand in memory: arrays themselves, rows, slices, transposes."""

from __future__ import annotations

import ast

from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.array_expressions import ArrayReader
from optimizer.polyhedral.frontend.array_values import ArrayValue
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError
from optimizer.polyhedral.frontend.scope import ArrayInfo, Binding, Scope


def view_of(scope: Scope, node: ast.expr) -> ArrayValue | None:
    """The array or the part of one that `node` names; None for anything else, and for one element."""
    root = node
    while isinstance(root, ast.Subscript) or (isinstance(root, ast.Attribute) and root.attr == "T"):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in scope.arrays.keys() | scope.views.keys():
        return None
    try:
        value = array_value(scope, node)
    except (NotAffine, ShapeError):
        return None
    return value if value.rank and value.array is not None else None


def array_value(scope: Scope, node: ast.expr) -> ArrayValue:
    """What an expression is; nothing is made for it. Raises `ShapeError` and `NotAffine`."""
    try:
        return ArrayReader(scope, _declare_nothing).value(node)
    except ShapeError as problem:
        scope.check_sizes(problem)
        raise


def bound_size(scope: Scope, size: Quantity, place: ast.AST) -> ast.Name:
    """A new name for a size."""
    name = scope.names.fresh("count")
    scope.bindings[name] = Binding(size.value, scope.rewritten(size.node))
    return ast.copy_location(ast.Name(name, ast.Load()), place)


def _declare_nothing(_name: str, _info: ArrayInfo) -> None:
    pass
