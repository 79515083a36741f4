"""Puts expressions and names in the place of names."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from optimizer.polyhedral.frontend.copying import copied


class Substituted(ast.NodeTransformer):
    """Names -> the expressions that stand in their place; what is written to one is written to the other."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values:
            return node
        value = copied(self.values[node.id])
        if isinstance(value, ast.Name | ast.Subscript):
            value.ctx = node.ctx
        if not hasattr(value, "lineno"):
            ast.copy_location(value, node)
        return ast.fix_missing_locations(value)
