"""The step `distribute`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import fresh_names, loop_named, rename_loops, without_number
from optimizer.polyhedral.tree import Node, Sequence, loops, replace_loop, sequence_of


@dataclass(frozen=True, slots=True)
class Distribute(Step):
    """Give each part of a loop's body a loop of its own.

    args:
        loop: has several parts directly inside it. The first keeps the name i, the others get copies of i, called
            `i_2`, `i_3`, ...; the loops inside keep their names.
    rewrite:
        for i: (S0; for j: S1)   ->   for i: S0; for i_2: for j: S1        with distribute(i)
    """

    name: ClassVar[str] = "distribute"
    loop: LoopName

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.loop)
        if not isinstance(loop.body, Sequence):
            able = tuple(map(str, self.options(nest, tree)))
            raise StepError(f"the body of {self.loop} is one part, there is nothing to separate", able)
        first, *others = loop.body.parts
        names = fresh_names(nest, tree, [without_number(self.loop)] * len(others))
        copies = [
            rename_loops(replace(loop, body=part), {self.loop: name}) for part, name in zip(others, names, strict=True)
        ]
        return replace_loop(tree, self.loop, lambda _: sequence_of(replace(loop, body=first), *copies))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Distribute]:
        for loop in loops(tree):
            if isinstance(loop.body, Sequence):
                yield cls(loop.name)
