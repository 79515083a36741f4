"""The parts of a generated module that come from the source's own module: imports, constants, helper functions."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

GENERATED = "its loops rearranged."
"""How the docstring of a generated module ends."""


def import_lines(
    preamble: str, numba_names: set[str], needs_numpy: bool, standard: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The source's imports and the generated code's, sorted and with the standard library first."""
    found = {ast.unparse(node): node for node in ast.parse(preamble).body if isinstance(node, ast.Import)}
    plain = {f"import {_alias(alias)}": alias.name for node in found.values() for alias in node.names}
    plain |= {f"import {module}": module for module in standard}
    if needs_numpy:
        plain["import numpy as np"] = "numpy"
    members: dict[str, set[str]] = {"numba": set(numba_names)}
    for node in ast.parse(preamble).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            members.setdefault(node.module, set()).update(_alias(alias) for alias in node.names)
    members.pop("__future__", None)
    selected = {f"from {module} import {', '.join(sorted(names))}": module for module, names in members.items()}
    own: list[str] = []
    others: list[str] = []
    for line, module in [*sorted(plain.items()), *sorted(selected.items())]:
        (own if module.split(".")[0] in sys.stdlib_module_names else others).append(line)
    return (*own, "", *others) if own else tuple(others)


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def without_imports(preamble: str) -> str:
    """The lines that are no import statement."""
    lines = preamble.splitlines()
    for node in ast.parse(preamble).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return "\n".join(lines).strip("\n")


def decorated_functions(text: str, decorator: str) -> str:
    """The text with a decorator above every function."""
    lines = text.splitlines()
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    for function in reversed(functions):
        lines.insert(function.lineno - 1, decorator)
    return "\n".join(lines)


def function_source(module: str, name: str) -> str:
    """The source lines of one function of a module."""
    node = next(node for node in ast.parse(module).body if isinstance(node, ast.FunctionDef) and node.name == name)
    return "\n".join(module.splitlines()[node.lineno - 1 : node.end_lineno])


def defined_names(preamble: str) -> set[str]:
    """Names that a module text defines at its top level."""
    names: set[str] = set()
    for node in ast.parse(preamble).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name.split(".")[0] for alias in aliases}
            case _:
                names |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, or with the first free suffix: `i`, `i_2`, `i_3`."""
    taken = set(taken)
    suffixed = (f"{wanted}_{k}" for k in range(2, len(taken) + 3))
    return next(name for name in (wanted, *suffixed) if name not in taken)
