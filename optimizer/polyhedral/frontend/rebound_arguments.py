"""Arguments whose names get other arrays in a loop: `for t in range(n): x = A @ x`.

The caller's array keeps its elements: a copy stands for the argument from the beginning, if nothing is written to it.
A loop may end in `u = v`, where `v` is made anew in each iteration: then the elements can be assigned.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from optimizer.polyhedral.frontend.own_variables import is_written_first
from optimizer.polyhedral.frontend.placing import mentions, placed
from optimizer.polyhedral.frontend.substitution import Substituted


class Handed(ast.Assign):
    """`u = v`, after which nothing is done with the array by the name `v`."""


def with_own_copies(function: ast.FunctionDef, arrays: Collection[str], fresh: Callable[[str], str]) -> None:
    """Gives arguments that are bound again in a loop a copy; `arrays` are the arguments that are arrays."""
    rebound = {name for loop in function.body if isinstance(loop, ast.For) for name in _bound(loop)} & {*arrays}
    copies: list[ast.stmt] = []
    for name in sorted(rebound):
        if _is_written(function, name):
            continue
        own = fresh(name)
        renamed = Substituted({name: ast.Name(own, ast.Load())})
        function.body = [renamed.visit(line) for line in function.body]
        copied = ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "copy", ast.Load()), [], [])
        copies.append(placed(ast.Assign([ast.Name(own, ast.Store())], copied), function.body[0]))
    function.body = [*copies, *function.body]
    for loop in [node for node in ast.walk(function) if isinstance(node, ast.For)]:
        _mark_handed(function, loop)
    ast.fix_missing_locations(function)


def _bound(loop: ast.For) -> set[str]:
    """Names that every iteration gives what is computed from their last value, or another array at its end."""
    found: set[str] = set()
    for line in loop.body:
        match line:
            case ast.For():
                found |= _bound(line)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() | ast.Call() as value):
                found |= {name} if mentions(value, name) else set()
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name()) if line is loop.body[-1]:
                found.add(name)
            case _:
                pass
    return found


def _is_written(function: ast.FunctionDef, name: str) -> bool:
    """Whether elements of it may be assigned, by whatever name."""
    for node in (part for line in function.body for part in ast.walk(line)):
        match node:
            case ast.Subscript(ctx=ast.Store(), value=value) if mentions(value, name):
                return True
            case ast.AugAssign(target=ast.Name(id=target)) if target == name:
                return True
            case ast.Expr(value=ast.Call() as call) if mentions(call, name):
                return True
            case ast.Call(keywords=words) if any(word.arg == "out" and mentions(word.value, name) for word in words):
                return True
            case ast.Assign(value=value) if _is_alias(value, name):
                return True
            case _:
                pass
    return False


def _is_alias(value: ast.expr, name: str) -> bool:
    """Whether a value is, or has as a part, a view of the array under another name."""
    match value:
        case ast.Tuple(elts=parts):
            return any(_is_alias(part, name) for part in parts)
        case ast.Name(id=own):
            return own == name
        case ast.Subscript(value=inner) | ast.Attribute(value=inner, attr="T"):
            return _is_alias(inner, name)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in {"reshape", "ravel", "transpose"}:
            return mentions(value, name)
        case _:
            return False


def _mark_handed(function: ast.FunctionDef, loop: ast.For) -> None:
    """Marks `u = v` at the end of a loop that gives `v` its value before, if nothing else knows `v`."""
    match loop.body:
        case [*before, ast.Assign(targets=[ast.Name(id=old)], value=ast.Name(id=other)) as last] if old != other:
            first = next((line for line in before if mentions(line, other)), None)
        case _:
            return
    inside = sum(_is_name(part, other) for part in ast.walk(loop))
    everywhere = sum(_is_name(part, other) for line in function.body for part in ast.walk(line))
    if inside == everywhere and isinstance(first, ast.Assign) and is_written_first(loop.body, other):
        loop.body[-1] = placed(Handed([ast.Name(old, ast.Store())], ast.Name(other, ast.Load())), last)


def _is_name(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Name) and part.id == name
