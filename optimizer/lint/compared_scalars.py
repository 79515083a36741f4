"""Scalars of parallel loops that keep the best so far: `if x[i] > best: best = x[i]` (`not-a-reduction`).

Which iterations write depends on data, so this is read off the text: the condition reads in every iteration what
earlier ones left, wherever no iteration gives the variable a value of its own first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from optimizer.lint.finding import Finding, Rule
from optimizer.lint.parallel_cost import outermost_pranges
from optimizer.polyhedral.frontend.source import Module


def compared_scalars(module: Module, function: ast.FunctionDef) -> Iterator[Finding]:
    """Variables that a `prange` assigns only where a condition on themselves holds."""
    for loop in outermost_pranges(module, function):
        before = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        before |= {name for name, node in _bound(function) if node.lineno < loop.lineno}
        kept: dict[str, ast.Assign] = {}
        for condition in (node for node in ast.walk(loop) if isinstance(node, ast.If)):
            for name in _read(condition.test) & before:
                for node in ast.walk(condition):
                    if isinstance(node, ast.Assign) and _assigns(node, name):
                        kept.setdefault(name, node)
        for name, node in kept.items():
            if all(_is_conditional(loop, each, name) for other, each in _bound(loop) if other == name):
                message = f"`{name}` is compared with what earlier iterations of a parallel loop left in it, but each "
                message += "thread has a copy of its own"
                hint = f"write `{name} = max({name}, ...)` or `min`; where it is, look for it in a loop over blocks"
                yield Finding(Rule.NOT_A_REDUCTION, function.name, node, message, hint)


def _read(node: ast.expr) -> set[str]:
    """The variables in a condition, not those that are subscripted or called."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript() | ast.Attribute() | ast.Call():
            return set()
        case _:
            return set[str]().union(*(_read(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)))


def _assigns(node: ast.Assign, name: str) -> bool:
    """Whether it gives a variable a computed value."""
    is_target = any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    return is_target and not isinstance(node.value, ast.Constant)


def _bound(node: ast.AST) -> list[tuple[str, ast.Name]]:
    """Every name that gets a value in it, with where."""
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return [(name.id, name) for name in names if isinstance(name.ctx, ast.Store)]


def _is_conditional(loop: ast.For, target: ast.Name, name: str) -> bool:
    """Whether a variable gets a value only where a condition on itself holds."""
    conditions = (node for node in ast.walk(loop) if isinstance(node, ast.If) and name in _read(node.test))
    return any(target is part for node in conditions for part in ast.walk(node))
