"""A module's text for a live function that is not at the top level of a file: one of a notebook, or inside another."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import Any

from optimizer.errors import UserError


def text_with_globals(function: FunctionType) -> str:
    """The function's own source at its own line, followed by the constants, imports and functions that it uses.

    Raises:
        UserError: when its source cannot be found, or a name means two things.
    """
    own = _source_of(function)
    lines = ["\n" * (function.__code__.co_firstlineno - 1) + own]
    known: dict[str, Any] = {function.__name__: function}
    pending = _globals_of(function, own)
    while pending:
        name, value = pending.pop()
        value = _plain(value)
        if name in known:
            if known[name] is not value and known[name] != value:
                raise UserError(f"`{name}` means different things in the functions that `{function.__name__}` calls")
            continue
        known[name] = value
        if isinstance(value, FunctionType) and not _import_of(name, value):
            text = _source_of(value)
            lines.append(_named(text, name))
            pending += _globals_of(value, text)
        else:
            lines.append(_import_of(name, value) or _constant(name, value))
    if "numpy" not in known:
        lines.append("import numpy")
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """The Python function that Numba has compiled, or that is the kernel of a stencil; anything else as it is."""
    kernel = getattr(getattr(value, "kernel_ir", None), "func_id", None)
    return getattr(value, "py_func", getattr(kernel, "func", value))


def _source_of(function: FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise UserError(f"the source of `{function.__name__}` cannot be found: define it in a file") from None


def _globals_of(function: FunctionType, text: str) -> list[tuple[str, Any]]:
    """What the names mean that a function and its decorators use."""
    closure = inspect.getclosurevars(function)
    found = {**closure.globals, **closure.nonlocals}
    for node in ast.walk(ast.parse(text)):
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            names = (part.id for part in ast.walk(decorator) if isinstance(part, ast.Name))
            found |= {name: function.__globals__[name] for name in names if name in function.__globals__}
    return list(found.items())


def _named(text: str, name: str) -> str:
    """A function's source with the name that it is called by."""
    tree = ast.parse(text)
    if isinstance(tree.body[0], ast.FunctionDef):
        tree.body[0].name = name
    return ast.unparse(tree)


def _import_of(name: str, value: Any) -> str:
    """The import that gives `name` its meaning; "" for what is not imported from math, NumPy or Numba."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    own = getattr(value, "__name__", "")
    for module in ("math", "numpy", "numba"):
        if own and getattr(sys.modules.get(module), own, None) is value:
            return f"from {module} import {own} as {name}"
    return ""


def _constant(name: str, value: Any) -> str:
    """The assignment of a number or of a tuple of numbers; "" for anything else, which is then an unknown name."""
    parts = value if isinstance(value, tuple) else (value,)
    texts = [_number(part) for part in parts]
    if not all(texts):
        return ""
    return f"{name} = ({', '.join(texts)},)" if isinstance(value, tuple) else f"{name} = {texts[0]}"


def _number(value: Any) -> str:
    match value:
        case bool():
            return f"{value}"
        case int():
            return f"{int(value)}"
        case float():
            return f"{float(value)!r}"
        case _:
            return ""
