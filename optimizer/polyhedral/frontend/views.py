"""Parts of arrays that a name stands for: `x[1:]` in the place of a parameter, `A[i]` in that of a loop's variable."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.array_statements import ArrayReader
from optimizer.polyhedral.frontend.array_values import ArrayValue, ShapeError
from optimizer.polyhedral.frontend.quantities import Quantity
from optimizer.polyhedral.frontend.scope import Binding, Scope
from optimizer.polyhedral.frontend.substitution import Substituted


def view_of(scope: Scope, node: ast.expr) -> ArrayValue | None:
    """The array, the part of one or the element that `node` names; None for anything else."""
    root = node
    while isinstance(root, ast.Subscript) or (isinstance(root, ast.Attribute) and root.attr == "T"):
        root = root.value
    if not isinstance(root, ast.Name) or root.id not in scope.arrays:
        return None
    try:
        value = ArrayReader(scope, lambda _name, _info: None).value(node)
    except (NotAffine, ShapeError):
        return None
    return value if value.array is not None else None


def bound_size(scope: Scope, size: Quantity, place: ast.AST) -> ast.Name:
    """A new name for a size."""
    name = scope.names.fresh("count")
    scope.bindings[name] = Binding(size.value, scope.rewritten(size.node))
    return ast.copy_location(ast.Name(name, ast.Load()), place)


class ViewsInPlace(Substituted):
    """Expressions in the place of names, with the sizes of those that are parts of arrays."""

    def __init__(self, scope: Scope, values: Mapping[str, ast.expr]) -> None:
        super().__init__(values)
        self.scope = scope
        self.sizes: dict[str, list[ast.expr]] = {}

    def _sizes(self, node: ast.expr) -> list[ast.expr] | None:
        """The sizes of a name whose own text does not say them."""
        if not isinstance(node, ast.Name) or node.id not in self.values:
            return None
        value = self.values[node.id]
        if node.id not in self.sizes and isinstance(value, ast.Subscript | ast.Attribute):
            view = view_of(self.scope, value)
            self.sizes[node.id] = [bound_size(self.scope, size, node) for size in view.extents] if view else []
        return self.sizes.get(node.id) or None

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[array]) if sizes := self._sizes(array):
                return sizes[0]
            case _:
                return self._inside(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node:
            case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=index) if (
                (sizes := self._sizes(array))
                and (place := _constant(index)) is not None
                and place in range(-len(sizes), len(sizes))
            ):
                return sizes[place]
            case _:
                return self._inside(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node:
            case ast.Attribute(value=array, attr="shape") if sizes := self._sizes(array):
                return ast.copy_location(ast.Tuple([*sizes], ast.Load()), node)
            case ast.Attribute(value=array, attr="size") if (sizes := self._sizes(array)) and len(sizes) == 1:
                return sizes[0]
            case ast.Attribute(value=array, attr="ndim") if sizes := self._sizes(array):
                return ast.copy_location(ast.Constant(len(sizes)), node)
            case _:
                return self._inside(node)

    def _inside(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited


def _constant(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
