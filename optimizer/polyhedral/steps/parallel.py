"""The step `parallel`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import KEYWORD, LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import can_be_parallel, refuse_parallel_near
from optimizer.polyhedral.tree import Node, loops, replace_loop

SHARES = ("blocks", "ends")
CHUNK = 4
"""Of those that are drawn: small, so that every thread has several."""


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Share out the iterations of a loop among threads.

    args:
        loop: is not inside a parallel loop, nor has one inside it.
        share: `blocks` gives each thread iterations that follow each other; `ends` gives it as many from the start as
            from the end, for iterations that take longer and longer, or less and less.
        chunk: threads take turns with so many iterations each.
    rewrite:
        for i: S0   ->   parallel for i: S0        with parallel(i)
    """

    name: ClassVar[str] = "parallel"
    loop: LoopName
    share: str = field(default="blocks", metadata=KEYWORD)
    chunk: int = field(default=0, metadata=KEYWORD)

    def __post_init__(self) -> None:
        if self.share not in SHARES:
            raise StepError(f"parallel: share must be {' or '.join(SHARES)}, not {self.share}")
        if self.chunk < 0:
            raise StepError(f"parallel: chunk must be at least 1, not {self.chunk}")
        if self.chunk and self.share != "blocks":
            raise StepError("parallel: threads either take chunks in turn or share from both ends: leave one out")

    def apply(self, nest: Nest, tree: Node) -> Node:
        refuse_parallel_near(tree, self.loop)
        from_ends = self.share == "ends"
        return replace_loop(
            tree, self.loop, lambda loop: replace(loop, is_parallel=True, from_ends=from_ends, chunk=self.chunk)
        )

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Parallel]:
        for loop in loops(tree):
            if can_be_parallel(tree, loop.name):
                yield from (cls(loop.name, share) for share in SHARES)
                yield cls(loop.name, chunk=CHUNK)
