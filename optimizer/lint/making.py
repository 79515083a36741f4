"""The calls of NumPy by which a function makes its arrays."""

from __future__ import annotations

import ast

from optimizer.lint.subject import Subject

EMPTY = frozenset({"numpy.empty", "numpy.empty_like"})
MAKERS = EMPTY | {f"numpy.{name}{like}" for name in ("zeros", "ones", "full") for like in ("", "_like")}


def call_that_makes(subject: Subject, name: str, makers: frozenset[str]) -> ast.Call | None:
    """The call that an array's name is assigned first, if it is one of these makers."""
    value = subject.first_values.get(name)
    return value if isinstance(value, ast.Call) and subject.module.resolve(value.func) in makers else None


def is_making(subject: Subject, source: ast.stmt) -> bool:
    """Whether a statement only makes an array."""
    match source:
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=function)):
            return subject.module.resolve(function) in MAKERS
        case _:
            return False
