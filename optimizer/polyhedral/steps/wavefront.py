"""The step `wavefront`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import sum_text
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import can_be_parallel, chain_of, chains, change_values, refuse_parallel_near
from optimizer.polyhedral.tree import Leaf, Node, replace_loop


@dataclass(frozen=True, slots=True)
class Wavefront(Step):
    """Run one diagonal of two nested loops after the other, each diagonal on threads.

    args:
        outer: counts the diagonals afterwards: its value becomes the sum of both.
        inner: perfectly nested in it; becomes parallel.
    rewrite:
        for t: for i: S0[t, i]   ->   for t: parallel for i: S0[t - i, i]        with wavefront(t, i)
    """

    name: ClassVar[str] = "wavefront"
    outer: LoopName
    inner: LoopName

    def __post_init__(self) -> None:
        if self.outer == self.inner:
            raise StepError(f"wavefront takes two different loops, not {self.outer} twice")

    def apply(self, nest: Nest, tree: Node) -> Node:
        chain = chain_of(tree, (self.outer, self.inner))
        if chain[0].name != self.outer:
            raise StepError(f"{self.outer} is inside {self.inner}", (f"wavefront({self.inner}, {self.outer})",))
        refuse_parallel_near(tree, self.inner)

        def diagonal(leaf: Leaf) -> dict[str, str]:
            return {self.outer: sum_text(leaf.values[self.outer], 1, leaf.values[self.inner])}

        marked = replace_loop(tree, self.inner, lambda loop: replace(loop, is_parallel=True))
        return replace_loop(marked, self.outer, lambda loop: change_values(loop, diagonal))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Wavefront]:
        for chain in chains(tree):
            for outer, inner in combinations(chain, 2):
                if can_be_parallel(tree, inner.name):
                    yield cls(outer.name, inner.name)
