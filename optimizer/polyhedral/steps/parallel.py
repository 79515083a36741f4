"""The step `parallel`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import can_be_parallel, refuse_parallel_near
from optimizer.polyhedral.tree import Node, loops, replace_loop


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Share out the iterations of a loop among threads.

    args:
        loop: is not inside a parallel loop, nor has one inside it.
    rewrite:
        for i: S0   ->   parallel for i: S0        with parallel(i)
    """

    name: ClassVar[str] = "parallel"
    loop: LoopName

    def apply(self, nest: Nest, tree: Node) -> Node:
        refuse_parallel_near(tree, self.loop)
        return replace_loop(tree, self.loop, lambda loop: replace(loop, is_parallel=True))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Parallel]:
        for loop in loops(tree):
            if can_be_parallel(tree, loop.name):
                yield cls(loop.name)
