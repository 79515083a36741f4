"""The step `unroll_and_jam`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import factor_text
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import chains, change_values, fresh_names, loop_named, nested, tile_name
from optimizer.polyhedral.tree import Leaf, Loop, Node, loops, replace_loop

FACTORS = (2, 4, 8)
"""What `options` proposes."""
LARGEST = 16


@dataclass(frozen=True, slots=True)
class UnrollAndJam(Step):
    """Write out several iterations of an outer loop inside the innermost one, which reuses what they share.

    args:
        loop: with only a perfect nest inside it.
        factor: how many iterations, 2 to 16. A new loop `i_t` steps over groups of that many. A group that is not
            full runs as a plain loop; where the bounds of i depend on the innermost loop (a triangle, a skewed tile),
            that loop has full groups in the middle.
    rewrite:
        for i: for k: S0[i, k]   ->   for i_t: for k: S0[2*i_t, k]; S0[2*i_t + 1, k]        with unroll_and_jam(i, 2)
    """

    name: ClassVar[str] = "unroll_and_jam"
    loop: LoopName
    factor: int

    def __post_init__(self) -> None:
        if not 2 <= self.factor <= LARGEST:
            raise StepError(f"the factor of unroll_and_jam must be from 2 to {LARGEST}, not {self.factor}")

    def apply(self, nest: Nest, tree: Node) -> Node:
        point = loop_named(tree, self.loop)
        if point.is_parallel:
            raise StepError(f"{self.loop} is parallel: unroll and jam it before marking")
        if point.unroll != 1:
            raise StepError(f"{self.loop} is unrolled already")
        if point.vector != 1:
            raise StepError(f"{self.loop} is vectorized, so it cannot be unrolled")
        if not isinstance(point.body, Loop):
            inside = next((loop.name for loop in loops(point.body)), None)
            if inside is None:
                raise StepError(f"{self.loop} is innermost already", (f"unroll({self.loop}, {self.factor})",))
            raise StepError(f"{self.loop} has several parts", (f"distribute({self.loop})",))
        *_, innermost = chain = next(iter(chains(point)))
        if any(loops(innermost.body)):
            raise StepError(
                f"{innermost.name} inside {self.loop} has several parts", (f"distribute({innermost.name})",)
            )
        (group,) = fresh_names(nest, tree, [tile_name(self.loop)])

        def grouped(leaf: Leaf) -> dict[str, str]:
            return {group: f"floor({factor_text(leaf.values[self.loop])}/{self.factor})"}

        order = [Loop(group, point), *chain[1:], replace(point, unroll=self.factor)]
        return replace_loop(tree, self.loop, lambda _: nested(order, change_values(innermost.body, grouped)))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[UnrollAndJam]:
        for chain in chains(tree):
            if any(loops(chain[-1].body)):
                continue
            for loop in chain[:-1]:
                if not loop.is_parallel and loop.unroll == loop.vector == 1:
                    for factor in FACTORS:
                        yield cls(loop.name, factor)
