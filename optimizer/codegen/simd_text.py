"""The part of `simd.py` that a module needs which has to do without this package."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

OPERATORS = {
    **{"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "USub": "neg"},
    **{"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne"},
    **{"BitAnd": "and_", "BitOr": "or_", "Invert": "invert"},
}
"""Python's names of operators in syntax trees and in the module `operator`."""


@dataclass(frozen=True, slots=True)
class SimdPart:
    imports: str
    text: str
    names: frozenset[str]
    """What it defines or imports."""


def simd_part(operations: Iterable[str], function: str) -> SimdPart:
    """Definitions of the operations and of the operators in the text of a function, with all that they need."""
    statements = _statements()
    nodes = list(ast.walk(ast.parse(function)))
    operators = {OPERATORS[kind] for node in nodes if (kind := type(node).__name__) in OPERATORS}
    builtins = {node.id for node in nodes if isinstance(node, ast.Name) and node.id == "abs"}
    needed = {*operations, *builtins, *(f"operator.{name}" for name in operators)}
    kept: set[int] = set()
    while True:
        found = {k for k, s in enumerate(statements) if k not in kept and (s.defined | s.served) & needed}
        if not found:
            break
        kept |= found
        needed |= {name for k in found for name in statements[k].used}
    imports: list[str] = []
    names: set[str] = set()
    for node in _tree().body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            aliases = [alias for alias in node.names if (alias.asname or alias.name) in needed]
            names |= {alias.asname or alias.name for alias in aliases}
            if aliases:
                node = ast.Import(aliases) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, aliases, 0)
                imports.append(ast.unparse(node))
    texts = [statements[k].text for k in sorted(kept)]
    names |= {name for k in kept for name in statements[k].defined}
    return SimdPart("\n".join(imports), _apart(texts), frozenset(names))


@dataclass(frozen=True, slots=True)
class _Statement:
    """A definition, or a call that makes Numba know one."""

    text: str
    defined: frozenset[str]
    served: frozenset[str]
    """What it makes Numba compile: it is needed wherever these are."""
    used: frozenset[str]


@cache
def _source() -> str:
    return files("optimizer.codegen").joinpath("simd.py").read_text(encoding="utf-8")


@cache
def _tree() -> ast.Module:
    return ast.parse(_source())


@cache
def _statements() -> tuple[_Statement, ...]:
    lines = _source().splitlines()
    found: list[_Statement] = []
    for node in _tree().body:
        registrations: list[ast.expr] = []
        defined: set[str] = set()
        start = node.lineno
        match node:
            case (
                ast.FunctionDef(name=name, decorator_list=decorators)
                | ast.ClassDef(name=name, decorator_list=decorators)
            ):
                defined = {name}
                registrations = decorators
                start = min([start, *(decorator.lineno for decorator in decorators)])
            case ast.Expr(ast.Call() as call):
                registrations = [call]
            case _:
                continue
        served = {ast.unparse(call.args[0]) for call in registrations if isinstance(call, ast.Call)}
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        text = "\n".join(lines[start - 1 : node.end_lineno])
        found.append(_Statement(text, frozenset(defined), frozenset(served), frozenset(used)))
    return tuple(found)


def _apart(texts: list[str]) -> str:
    """Two empty lines between definitions, none between calls."""
    whole = ""
    for previous, text in zip(["", *texts], texts, strict=False):
        is_call = not text.startswith(("def", "class", "@"))
        was_call = not previous.startswith(("def", "class", "@"))
        whole += ("\n" if is_call and was_call else "\n\n\n") * bool(previous) + text
    return whole
