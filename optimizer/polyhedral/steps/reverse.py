"""The step `reverse`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import sum_text
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import change_values, loop_named
from optimizer.polyhedral.tree import Node, loops, replace_loop


@dataclass(frozen=True, slots=True)
class Reverse(Step):
    """Run a loop backwards.

    args:
        loop: its value becomes its negative.
    rewrite:
        for i in 0, 1, 2: S0[i]   ->   for i in -2, -1, 0: S0[-i]        with reverse(i)
    """

    name: ClassVar[str] = "reverse"
    loop: LoopName

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop_named(tree, self.loop)
        return replace_loop(
            tree,
            self.loop,
            lambda loop: change_values(loop, lambda leaf: {self.loop: sum_text("0", -1, leaf.values[self.loop])}),
        )

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Reverse]:
        for loop in loops(tree):
            yield cls(loop.name)
