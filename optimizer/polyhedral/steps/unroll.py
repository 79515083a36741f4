"""The step `unroll`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import loop_named
from optimizer.polyhedral.tree import Node, loops, replace_loop

FACTORS = (2, 4, 8)
"""What `options` proposes."""
LARGEST = 16


@dataclass(frozen=True, slots=True)
class Unroll(Step):
    """Write out several iterations of an innermost loop one after the other.

    args:
        loop: has no loop inside it.
        factor: how many iterations, 2 to 16; a plain loop after it runs those that are left over. Left out: all of
            them, where the loop has a small fixed number.
    rewrite:
        for k: S0[k]   ->   for k in steps of 2: S0[k]; S0[k + 1]        with unroll(k, 2)
    """

    name: ClassVar[str] = "unroll"
    loop: LoopName
    factor: int = 0

    def __post_init__(self) -> None:
        if self.factor != 0 and not 2 <= self.factor <= LARGEST:
            raise StepError(f"the factor of unroll must be from 2 to {LARGEST}, not {self.factor}")

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.loop)
        inside = [inner.name for inner in loops(loop.body)]
        if inside:
            near = tuple(f"unroll({inner}, {self.factor or 4})" for inner in inside if _is_innermost(tree, inner))
            raise StepError(f"{self.loop} is not innermost, {inside[0]} is inside it", near)
        if loop.is_parallel:
            raise StepError(f"{self.loop} is parallel, so it cannot be unrolled")
        if loop.vector != 1:
            raise StepError(f"{self.loop} is vectorized, so it cannot be unrolled")
        if loop.unroll == self.factor:
            raise StepError(f"{self.loop} is unrolled like that already")
        return replace_loop(tree, self.loop, lambda loop: replace(loop, unroll=self.factor))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Unroll]:
        for loop in loops(tree):
            is_plain = not loop.is_parallel and loop.unroll == loop.vector == 1
            if _is_innermost(tree, loop.name) and is_plain:
                for factor in FACTORS:
                    yield cls(loop.name, factor)


def _is_innermost(tree: Node, name: str) -> bool:
    return not any(loops(loop_named(tree, name).body))
