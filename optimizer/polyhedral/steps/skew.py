"""The step `skew`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import sum_text
from optimizer.polyhedral.steps.arguments import KEYWORD, LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import around, change_values, loop_named
from optimizer.polyhedral.tree import Leaf, Node, loops, replace_loop

FACTORS = (1, 2, -1)
"""What `options` proposes."""
LARGEST = 1_000


@dataclass(frozen=True, slots=True)
class Skew(Step):
    """Add a multiple of an outer loop's value to a loop's value, which keeps the order and lets later steps change it.

    args:
        loop: whose value changes.
        by: a loop around it.
        factor: how many times `by` is added, not 0.
    rewrite:
        for t: for i: S0[t, i]   ->   for t: for i: S0[t, i - 2*t]        with skew(i, by=t, factor=2)
    """

    name: ClassVar[str] = "skew"
    loop: LoopName
    by: LoopName = field(metadata=KEYWORD)
    factor: int = field(default=1, metadata=KEYWORD)

    def __post_init__(self) -> None:
        if not 1 <= abs(self.factor) <= LARGEST:
            raise StepError(f"the factor of a skew must be from 1 to {LARGEST}, or negative, not {self.factor}")

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop_named(tree, self.by)
        loop_named(tree, self.loop)
        outside = [loop.name for loop in around(tree, self.loop)]
        if self.by not in outside:
            near = tuple(f"skew({self.loop}, by={name})" for name in outside)
            raise StepError(f"{self.by} is not a loop around {self.loop}", near)

        def skewed(leaf: Leaf) -> dict[str, str]:
            return {self.loop: sum_text(leaf.values[self.loop], self.factor, leaf.values[self.by])}

        return replace_loop(tree, self.loop, lambda loop: change_values(loop, skewed))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Skew]:
        for loop in loops(tree):
            for outer in around(tree, loop.name):
                for factor in FACTORS:
                    yield cls(loop.name, outer.name, factor)
