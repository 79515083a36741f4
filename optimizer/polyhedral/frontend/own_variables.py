"""Variables that an `if` uses for itself get names of their own, although the function uses their names elsewhere too.

`if ...: t = x[i]; y[i] = t * t` in two places has two variables: neither value is ever seen by the other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from optimizer.polyhedral.frontend.placing import mentions
from optimizer.polyhedral.frontend.substitution import Substituted


@dataclass(frozen=True, slots=True)
class Own:
    """What only the branches know."""

    names: frozenset[str]
    arrays: frozenset[str]
    """Those whose elements nothing else can reach, if they are arrays."""

    def has(self, target: ast.expr) -> bool:
        """Whether an assignment to the target is seen by the branches only."""
        return root_of(target) in (self.names if isinstance(target, ast.Name) else self.arrays)


def root_of(target: ast.expr) -> str:
    """The variable or the array that an assignment changes."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def separate_own_variables(body: Sequence[ast.stmt], fresh: Callable[[str], str]) -> None:
    """Renames them in place; `fresh` makes a new name of one."""
    for choice in (node for line in body for node in ast.walk(line) if isinstance(node, ast.If)):
        every = [name for line in body for name in _names(line)]
        inside = [*_names(choice)]
        for name in sorted(_assigned(choice)):
            is_elsewhere = every.count(name) > inside.count(name)
            if is_elsewhere and is_own(choice, name) and not _is_seen_outside(body, choice, name):
                renaming = Substituted({name: ast.Name(fresh(name), ast.Load())})
                choice.body = [renaming.visit(line) for line in choice.body]
                choice.orelse = [renaming.visit(line) for line in choice.orelse]


def is_own(choice: ast.If, name: str) -> bool:
    """Whether both branches assign the variable before they read it, and the test does not read it."""
    return not mentions(choice.test, name) and all(is_written_first(b, name) for b in (choice.body, choice.orelse))


def is_written_first(block: Sequence[ast.stmt], name: str) -> bool:
    """Whether every read of the variable in it sees a value that the same run of the block gave it."""
    match [line for line in block if mentions(line, name)]:
        case []:
            return True
        case [ast.Assign(targets=targets, value=value), *_]:
            is_assigned = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            return is_assigned and not mentions(value, name)
        case [ast.For(target=target, iter=iterable, body=body, orelse=[])]:
            return not mentions(target, name) and not mentions(iterable, name) and is_written_first(body, name)
        case [ast.If() as choice]:
            return is_own(choice, name)
        case _:
            return False


def _assigned(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _is_seen_outside(body: Sequence[ast.stmt], choice: ast.If, name: str) -> bool:
    """Whether a read outside the `if` may see a value that it assigned."""
    return any(_may_see(path, choice, name) for path in _reads(body, choice, name))


def _reads(block: Sequence[ast.stmt], choice: ast.If, name: str) -> Iterator[list[tuple[Sequence[ast.stmt], int]]]:
    """Every statement outside the `if` that may read the variable: the blocks around it, each with the position."""
    for position, line in enumerate(block):
        if line is choice:
            continue
        here = (block, position)
        match line:
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                parts, own = (body, orelse), mentions(target, name) or mentions(iterable, name)
            case ast.If(test=test, body=body, orelse=orelse):
                parts, own = (body, orelse), mentions(test, name)
            case ast.Assign(targets=[ast.Name()], value=value):
                parts, own = (), mentions(value, name)
            case _:
                parts, own = (), mentions(line, name)
        if own:
            yield [here]
        for part in parts:
            yield from ([here, *path] for path in _reads(part, choice, name))


def _may_see(path: list[tuple[Sequence[ast.stmt], int]], choice: ast.If, name: str) -> bool:
    """Whether nothing surely assigns the variable between the `if` and a statement."""
    for block, position in reversed(path):
        for before in range(position - 1, -1, -1):
            match block[before]:
                case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                    between = block[before + 1 : position + 1]
                    return any(part is choice for line in between for part in ast.walk(line))
                case _:
                    pass
    return True
