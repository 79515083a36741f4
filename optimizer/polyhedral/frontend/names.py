"""Which names a kernel function uses for what, read before anything else; and how loops get unique ones."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

_ISL_WORDS = "and or not exists implies mod floor ceil floord ceild min max rat true false infty infinity nan"
_PRINTED_WORDS = "range min max abs int float bool len np numpy math numba njit prange"


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


@dataclass(slots=True)
class FunctionNames:
    """The names in one function, and the unique names handed out so far."""

    assigned: Counter[str]
    """How many assignments write each variable (loop variables not counted)."""
    loops: frozenset[str]
    taken: set[str]

    @classmethod
    def of(cls, function: ast.FunctionDef) -> FunctionNames:
        assigned: Counter[str] = Counter()
        loops: set[str] = set()
        every: set[str] = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
        for statement in function.body:
            for node in ast.walk(statement):
                match node:
                    case ast.Assign(targets=targets):
                        assigned.update(name.id for target in targets for name in target_names(target))
                    case ast.AugAssign(target=target):
                        assigned.update(name.id for name in target_names(target))
                    case ast.AnnAssign(target=target, value=ast.expr()):
                        assigned.update(name.id for name in target_names(target))
                    case ast.For(target=target):
                        loops.update(name.id for name in target_names(target))
                    case ast.Name(id=name):
                        every.add(name)
                    case _:
                        pass
        return cls(assigned, frozenset(loops), every)

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
