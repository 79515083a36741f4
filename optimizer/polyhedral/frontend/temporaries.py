"""Arrays that only carry values from one array statement to the next: scalars that each iteration has for itself.

    d = a - b; e = d * d        d[i] = a[i] - b[i]; e[i] = d[i] * d[i]        one loop after fusing, with a variable d

A schedule that fuses the loops needs no memory for such an array; where one does not, it gets its memory back.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace

from optimizer.polyhedral.frontend.own_iterations import with_own_elements
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement

DTYPES = frozenset({"float64", "int64", "bool"})
"""A variable holds these as an array does; a narrower number would be rounded by the array alone."""


def with_temporaries_in_variables(nest: Nest, made: Collection[str]) -> Nest:
    """The nest with scalars in the place of arrays among `made` that one statement writes, element by element."""
    chosen = {array.name for array in nest.arrays if array.name in made and _is_temporary(nest, array)}
    if not chosen:
        return nest
    arrays = tuple(
        replace(array, role=Role.SCALAR, shape=(), fill="") if array.name in chosen else array for array in nest.arrays
    )
    statements = tuple(
        replace(statement, body=ast.unparse(_InVariables(chosen).visit(ast.parse(statement.body))))
        for statement in nest.statements
    )
    return with_own_elements(replace(nest, arrays=arrays, statements=statements), sorted(chosen))


def _is_temporary(nest: Nest, array: Array) -> bool:
    if array.role is not Role.LOCAL or array.returned or array.dtype not in DTYPES:
        return False
    using = [statement for statement in nest.statements if _accesses(statement, array.name)]
    if any(statement.opaque for statement in using):
        return False
    writing = [statement for statement in using if any(access.is_write for access in _accesses(statement, array.name))]
    if len(writing) != 1 or len(using) < 2:
        return False
    (only,) = writing
    is_set = len(_accesses(only, array.name)) == 1
    return is_set and all(len({access.subscripts for access in _accesses(s, array.name)}) == 1 for s in using)


def _accesses(statement: Statement, array: str) -> list[Access]:
    return [access for access in statement.accesses if access.array == array]


class _InVariables(ast.NodeTransformer):
    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            return ast.Name(node.value.id, node.ctx)
        return node
