"""Gives statements that are made of others their place in the source, for messages."""

from __future__ import annotations

import ast
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


def placed(node: Node, source: ast.AST) -> Node:
    """The node; what in it has no place yet stands where `source` does."""
    for part in ast.walk(node):
        if isinstance(part, ast.stmt | ast.expr) and not hasattr(part, "lineno"):
            ast.copy_location(part, source)
    return node


def mentions(node: ast.AST, name: str) -> bool:
    """Whether the name occurs in it."""
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))
