"""The step `vectorize`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import loop_inside, loop_named
from optimizer.polyhedral.tree import WIDEST_VECTOR, Loop, Node, leaves, loops, replace_loop
from optimizer.polyhedral.vector_form import obstacle

LANES = (2, 4, 8, WIDEST_VECTOR)


@dataclass(frozen=True, slots=True)
class Vectorize(Step):
    """Run neighbouring iterations of a loop at once, each value of all of them in one vector register.

    args:
        loop: has no loop inside it, but for those that unroll_and_jam put there.
        lanes: how many iterations at once, 2, 4, 8 or 16. A statement runs for all of them before the next one does, so
            of two that are nearer than that the later one may need only what stands before it. Left out: as many as the
            machine's vectors hold; legal where 16 are. Iterations that are left over run as one with a mask, or one by
            one.
    rewrite:
        for j: S0[j]   ->   for j in steps of 4: S0[j], S0[j + 1], S0[j + 2], S0[j + 3] at once     with vectorize(j, 4)
    """

    name: ClassVar[str] = "vectorize"
    loop: LoopName
    lanes: int = 0

    def __post_init__(self) -> None:
        if self.lanes not in (0, *LANES):
            raise StepError(
                f"vectorize takes {', '.join(map(str, LANES[:-1]))} or {LANES[-1]} lanes, not {self.lanes}",
                (f"vectorize({self.loop})",),
            )

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.loop)
        if inside := loop_inside(loop):
            near = (str(replace(self, loop=inner.name)) for inner in loops(loop.body) if _can_be_vector(nest, inner))
            raise StepError(f"{self.loop} is not innermost, {inside} is inside it", tuple(near))
        if loop.is_parallel:
            raise StepError(f"{self.loop} is parallel, so it cannot be vectorized")
        if loop.unroll != 1:
            raise StepError(f"{self.loop} is unrolled, so it cannot be vectorized")
        if loop.vector == self.lanes:
            raise StepError(f"{self.loop} is vectorized like that already")
        if reason := vector_obstacle(nest, loop):
            near = (str(replace(self, loop=other.name)) for other in loops(tree) if _can_be_vector(nest, other))
            raise StepError(f"{self.loop} cannot be vectorized: {reason}", tuple(near))
        return replace_loop(tree, self.loop, lambda loop: replace(loop, vector=self.lanes))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Vectorize]:
        """With the machine's lanes; how many there are changes little where that is legal."""
        for loop in loops(tree):
            if _can_be_vector(nest, loop):
                yield cls(loop.name)


def _can_be_vector(nest: Nest, loop: Loop) -> bool:
    is_plain = not loop.is_parallel and loop.unroll == loop.vector == 1
    return is_plain and not loop_inside(loop) and not vector_obstacle(nest, loop)


def vector_obstacle(nest: Nest, loop: Loop) -> str:
    statements = dict.fromkeys(leaf.statement for leaf in leaves(loop.body))
    return next(filter(None, (obstacle(nest, nest.statement(name)) for name in statements)), "")
