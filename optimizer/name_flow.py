"""Which variables carry values from one part of a function's text to another."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence


class NotUnderstoodError(Exception):
    """There is a statement or an expression that neither generated code nor pieces of kernels have."""


SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""Expressions that bind names."""


def parallel_loops(
    statements: Sequence[ast.stmt], after: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.For, frozenset[str]]]:
    """The outermost `prange` loops, each with the names whose values may be read when it is over.

    `after`: those that may be read after the statements.
    """
    for position, statement in enumerate(statements):
        rest = after | read_first(statements[position + 1 :])
        match statement:
            case ast.For(iter=ast.Call(func=ast.Name("prange"))):
                yield statement, rest
            case ast.For(body=body):
                yield from parallel_loops(body, rest | read_first([statement]))
            case ast.If(body=body, orelse=otherwise):
                yield from parallel_loops(body, rest)
                yield from parallel_loops(otherwise, rest)
            case _:
                pass


def read_first(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that the statements may read before they assign them; raises NotUnderstoodError."""
    return _flow(statements, frozenset())[0]


def assigned_after(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The names that have a value after the statements in any case; raises NotUnderstoodError."""
    return _flow(statements, frozenset())[1]


def assigned(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in _names(nodes) if isinstance(node.ctx, ast.Store))


def read(nodes: Iterable[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in _names(nodes) if isinstance(node.ctx, ast.Load))


def _names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    return (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name))


def _flow(statements: Iterable[ast.stmt], known: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """What is read first where the names `known` have been assigned, and what has been assigned at the end."""
    found = frozenset[str]()
    for statement in statements:
        if any(isinstance(part, SCOPES) for part in ast.walk(statement)):
            raise NotUnderstoodError
        match statement:
            case ast.For(target=target, iter=numbers, body=body, orelse=[]):
                found |= (read([numbers]) - known) | _flow(body, known | assigned([target]))[0]
            case ast.While(test=test, body=body, orelse=[]):
                found |= (read([test]) - known) | _flow(body, known)[0]
            case ast.If(test=test, body=body, orelse=otherwise):
                found |= read([test]) - known
                (here, one), (there, other) = _flow(body, known), _flow(otherwise, known)
                found, known = found | here | there, one & other
            case ast.AugAssign(target=ast.Name(name)):
                found |= (read([statement]) | {name}) - known
                known |= {name}
            case ast.Break() | ast.Continue():
                pass  # What stands behind it in its block never runs.
            case (
                ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Raise() | ast.Return() | ast.Pass()
            ):
                found |= read([statement]) - known
                known |= assigned([statement])
            case _:
                raise NotUnderstoodError
    return found, known
