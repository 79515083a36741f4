"""Statements that no kernel may have: why, and what to write instead."""

from __future__ import annotations

import ast

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.source import Source


def unsupported(source: Source, node: ast.stmt) -> SourceError:
    """The error for a statement of a kind that is not supported, or not here."""
    match node:
        case ast.Return():
            return source.error(node, "`return` is only supported as the last line", "compute the result first")
        case ast.While():
            hint = "use `for` over a `range` whose bounds depend on loop variables and sizes only"
            message = "`while` is not supported: how often it runs is not known beforehand"
            return source.error(node, message, hint, depends_on_data=True)
        case ast.Break() | ast.Continue():
            word = type(node).__name__.lower()
            hint = "put the condition into the bounds of the loop, or into an `if` around the rest of its body"
            return source.error(node, f"`{word}` is not supported", hint, depends_on_data=True)
        case ast.Expr(value=ast.Call(func=function)):
            hint = "leave the call out: only assignments have an effect that can be followed"
            return source.error(node, f"a call of `{ast.unparse(function)}` for its effect is not supported", hint)
        case ast.Assert() | ast.Raise():
            hint = "check the arguments before the kernel is called"
            return source.error(node, "a kernel that may raise is not supported", hint)
        case ast.Import() | ast.ImportFrom():
            return source.error(node, "`import` inside a kernel is not supported", "move it to the top of the file")
        case _:
            first = ast.unparse(node).strip().split(maxsplit=1)[0].rstrip(":")
            hint = "a kernel consists of `for`, `if`, assignments and a final `return`"
            return source.error(node, f"`{first}` is not supported in a kernel", hint)


def data_dependent(source: Source, node: ast.If) -> SourceError:
    """The error for an `if` that depends on more than loop variables and sizes."""
    message = f"whether `{ast.unparse(node.test)}` holds is not known from loop variables and sizes"
    hint = "a branch may then only assign elements and variables, also in loops: the other values are kept"
    return source.error(node.test, message, hint, depends_on_data=True)
