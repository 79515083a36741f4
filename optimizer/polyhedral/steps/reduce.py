"""The step `reduce`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.reductions import free_reduction, reduction_of
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import loop_named
from optimizer.polyhedral.tree import Loop, Node, leaves, loops, replace_loop

MOST_PARTIALS = 256


@dataclass(frozen=True, slots=True)
class Reduce(Step):
    """Let a loop reduce in any order.

    args:
        loop: keeps `x += e`, `x *= e`, `x = min(x, e)` or max, whose x it does not move, in no order; floats need
            --fp reassociate.
        partials: how many vectors, or copies for threads, hold partial results.
    rewrite:
        for j: s += a[j]   ->   for j: part[j % 4] += a[j]; s += part[0] + ... + part[3]        with reduce(j, 4)
    """

    name: ClassVar[str] = "reduce"
    loop: LoopName
    partials: int = 0

    def __post_init__(self) -> None:
        if self.partials == 1 or not 0 <= self.partials <= MOST_PARTIALS:
            raise StepError(f"reduce takes from 2 to {MOST_PARTIALS} partial results, not {self.partials}")

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.loop)
        if loop.partials == self.partials:
            raise StepError(f"{self.loop} is marked like that already")
        statements = _reducing(nest, loop)
        if not statements:
            near = (str(replace(self, loop=other.name)) for other in loops(tree) if _is_free(nest, other))
            raise StepError(
                f"no statement in {self.loop} adds to an element that {self.loop} does not move, multiplies it, or "
                "keeps the least or greatest there",
                tuple(near),
            )
        if not _is_free(nest, loop):
            (first, *_) = statements
            reason = "the order in which it is rounded is only free with --fp reassociate"
            if nest.array(next(a.array for a in first.accesses if a.is_write)).dtype.startswith("int"):
                reason = "what it combines does not always stay within whole numbers of that type"
            raise StepError(f"{first.name} (line {first.line}) is reduced in {self.loop}, but {reason}")
        return replace_loop(tree, self.loop, lambda loop: replace(loop, partials=self.partials))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Reduce]:
        for loop in loops(tree):
            if loop.partials == 1 and _is_free(nest, loop):
                yield cls(loop.name)


def _reducing(nest: Nest, loop: Loop) -> list[Statement]:
    """The statements in a loop that reduce elements which it seems not to move; isl knows it for sure."""
    found: dict[str, Statement] = {}
    for leaf in leaves(loop):
        statement = nest.statement(leaf.statement)
        reduction = reduction_of(nest, statement)
        if reduction is not None:
            plain = (text for text in reduction.subscripts if not re.search(r"\b(floor|mod)\b", text))
            if (_names(leaf.values[loop.name]) & {*statement.iterators}) - _names(" ".join(plain)):
                found[statement.name] = statement
    return list(found.values())


def _names(expression: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", expression))


def _is_free(nest: Nest, loop: Loop) -> bool:
    return any(free_reduction(nest, statement) is not None for statement in _reducing(nest, loop))
