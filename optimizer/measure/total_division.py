"""Division in plain Python as compiled code does it: by zero it is infinite or not a number, and raises nothing."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def with_total_division(module: ast.Module) -> ast.Module:
    """The module, changed, with calls of `NAMES` in the place of each `/` and `/=`."""
    return ast.fix_missing_locations(_Divisions().visit(module))


class _Divisions(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _called("<divided>", node.left, node.right) if isinstance(node.op, ast.Div) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.copy_location(ast.Assign([node.target], _called("<divided in place>", before, node.value)), node)


def _called(name: str, left: ast.expr, right: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [left, right], [])


def _total(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def divided(left: Any, right: Any) -> Any:
        try:
            return divide(left, right)
        except ZeroDivisionError:
            with np.errstate(all="ignore"):
                return np.float64(left) / np.float64(right)

    return divided


NAMES: dict[str, Callable[[Any, Any], Any]] = {
    "<divided>": _total(operator.truediv),
    "<divided in place>": _total(operator.itruediv),
}
"""What the rewritten module calls; no source can have such names."""
