"""Which names a kernel function uses for what, read before anything else; and how loops get unique ones."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_ISL_WORDS = "and or not exists implies mod floor ceil floord ceild min max rat true false infty infinity nan"
_PRINTED_WORDS = "range enumerate zip reversed min max abs int float bool len np numpy math numba njit prange"


def is_reserved(name: str) -> bool:
    """Whether a name means something else in isl texts or in generated code."""
    is_word = name.casefold() in _ISL_WORDS.split() or name in _PRINTED_WORDS.split()
    return is_word or not name.isascii()


def target_names(target: ast.expr) -> Iterator[ast.Name]:
    """The variables that an assignment to `target` binds."""
    match target:
        case ast.Name():
            yield target
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from target_names(part)
        case ast.Starred(value=value):
            yield from target_names(value)
        case _:
            return


def loop_targets(loop: ast.For) -> tuple[list[ast.Name], list[ast.Name]]:
    """The variables of a loop that count its iterations, and those that are elements or computed for each."""
    every = list(target_names(loop.target))
    match loop.target, loop.iter:
        case ast.Tuple(elts=[ast.Name() as counter, *_]), ast.Call(
            func=ast.Name(id="enumerate"), args=[_], keywords=[]
        ):
            return [counter], [name for name in every if name is not counter]
        case ast.Name(), ast.Call(func=ast.Name(id="reversed"), args=[inner]):
            return (every, []) if isinstance(inner, ast.Call) else ([], every)
        case ast.Name(), ast.Call():
            return every, []
        case _:
            return [], every


@dataclass(slots=True)
class FunctionNames:
    """The names in one function, and the unique names handed out so far."""

    assigned: Counter[str] = field(default_factory=Counter[str])
    """How many assignments write each variable (loop variables not counted)."""
    loops: set[str] = field(default_factory=set[str])
    taken: set[str] = field(default_factory=set[str])
    mentioned: Counter[str] = field(default_factory=Counter[str])
    """How often each name occurs."""

    @classmethod
    def of(cls, function: ast.FunctionDef, taken: Iterable[str] = ()) -> FunctionNames:
        """The names of a function; those in `taken` are not given to anything else either."""
        arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        names = cls(taken={*taken, *arguments})
        names.add(function.body)
        return names

    def add(self, body: Iterable[ast.stmt]) -> None:
        """Takes in the names of more statements."""
        for node in (part for statement in body for part in ast.walk(statement)):
            match node:
                case ast.Assign(targets=targets):
                    self.assigned.update(name.id for target in targets for name in target_names(target))
                case ast.AugAssign(target=target):
                    self.assigned.update(name.id for name in target_names(target))
                case ast.AnnAssign(target=target, value=ast.expr()):
                    self.assigned.update(name.id for name in target_names(target))
                case ast.For():
                    counters, elements = loop_targets(node)
                    self.loops.update(name.id for name in counters)
                    self.assigned.update(name.id for name in elements)
                case ast.Name(id=name):
                    self.taken.add(name)
                    self.mentioned[name] += 1
                case _:
                    pass

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with the first suffix that makes it unique: `A_0`, `A_0_2`."""
        name, count = wanted, 1
        while name in self.taken or is_reserved(name):
            count += 1
            name = f"{wanted}_{count}" if wanted.isascii() else f"v_{count}"
        self.taken.add(name)
        return name


@dataclass(slots=True)
class LoopNames:
    """Hands out loop names in source order: `j`, `j_2`."""

    names: FunctionNames
    others: frozenset[str]
    """Names that mean something else: arguments, sizes, what the module defines."""
    used: set[str] = field(default_factory=set[str])

    def next(self, wanted: str) -> str:
        is_free = wanted not in self.used | self.others and not is_reserved(wanted)
        if is_free:
            self.used.add(wanted)
            return wanted
        return self.names.fresh(wanted)
