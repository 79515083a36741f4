"""The part of `simd/` and `threads` that a module needs which has to do without this package."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

FILES = ("simd/lanes", "simd/vector", "simd/memory", "simd/streaming", "simd/alignment", "simd/arithmetic", "threads")
"""Each needs only those before it, if any."""
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
    nodes = list(ast.walk(ast.parse(function)))
    operators = {f"operator.{OPERATORS[kind]}" for node in nodes if (kind := type(node).__name__) in OPERATORS}
    needed = {*operations, *operators} | {node.id for node in nodes if isinstance(node, ast.Name) and node.id == "abs"}
    definitions = _definitions()
    kept: set[int] = set()
    while found := {k for k, d in enumerate(definitions) if k not in kept and (d.defined | d.served) & needed}:
        kept |= found
        needed |= {name for k in found for name in definitions[k].used}
    imports = {line: name for line, name in _imports().items() if name in needed}
    names = {*imports.values(), *(name for k in kept for name in definitions[k].defined)}
    return SimdPart("\n".join(imports), _apart([definitions[k].text for k in sorted(kept)]), frozenset(names))


@dataclass(frozen=True, slots=True)
class _Definition:
    """A function or class, or a call that makes Numba know an operator."""

    text: str
    defined: frozenset[str]
    served: frozenset[str]
    """What it makes Numba compile: where these are needed it is needed as well."""
    used: frozenset[str]


@cache
def _sources() -> tuple[str, ...]:
    folder = files("optimizer.codegen")
    return tuple(folder.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in FILES)


@cache
def _imports() -> dict[str, str]:
    """Each import of one name as a line, with that name; without those of these files from one another."""
    found: dict[str, str] = {}
    for node in (node for source in _sources() for node in ast.parse(source).body):
        match node:
            case ast.Import(aliases):
                found |= {ast.unparse(ast.Import([alias])): alias.asname or alias.name for alias in aliases}
            case ast.ImportFrom(str() as module, aliases) if module.split(".")[0] not in ("__future__", "optimizer"):
                found |= {
                    ast.unparse(ast.ImportFrom(module, [alias], 0)): alias.asname or alias.name for alias in aliases
                }
            case _:
                pass
    return found


@cache
def _definitions() -> tuple[_Definition, ...]:
    return tuple(d for source in _sources() for node in ast.parse(source).body if (d := _definition(node, source)))


def _definition(node: ast.stmt, source: str) -> _Definition | None:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            makers, defined = node.decorator_list, frozenset({node.name})
        case ast.Expr(ast.Call() as call):
            makers, defined = [call], frozenset[str]()
        case _:
            return None
    first = min(node.lineno, *(maker.lineno for maker in makers), node.lineno)
    served = frozenset(ast.unparse(maker.args[0]) for maker in makers if isinstance(maker, ast.Call))
    used = frozenset(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return _Definition("\n".join(source.splitlines()[first - 1 : node.end_lineno]), defined, served, used)


def _apart(texts: list[str]) -> str:
    """Two empty lines between definitions, none between calls."""
    whole = ""
    for previous, text in pairwise(["", *texts]):
        are_calls = not any(line.startswith(("def", "class", "@")) for line in (previous, text))
        whole += ("\n" if are_calls else "\n\n\n") + text
    return whole.strip("\n")
