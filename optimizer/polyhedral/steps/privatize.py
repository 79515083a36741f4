"""The step `privatize`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.steps.arguments import ArrayName, LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import loop_named
from optimizer.polyhedral.tree import Node, Private, loops


@dataclass(frozen=True, slots=True)
class Privatize(Step):
    """Give each iteration of a loop its own copy of an array.

    Other steps then work as if iterations did not share the array. It comes before steps that change the loop, and
    needs each iteration to write first what it reads of the array. What the array holds in the end is copied back by a
    statement of its own, last in the loop. The code has only as many copies as are in use at once.

    args:
        array: is written and read in the loop; it is no scalar, which iterations share only
            where they must.
        loop: a loop of the source.
    rewrite:
        for i: (for j: w[j] = ...; for j_2: A[i, j_2] = w[j_2])
        ->   for i: (for j: w_i[i, j] = ...; for j_2: A[i, j_2] = w_i[i, j_2]; for element: if last: w[element] = ...)
        with privatize(w, i)
    """

    name: ClassVar[str] = "privatize"
    array: ArrayName
    loop: LoopName

    def apply(self, nest: Nest, tree: Node) -> Node:
        from optimizer.polyhedral.model import model_of
        from optimizer.polyhedral.private_arrays import tree_with_private, with_private

        loop_named(tree, self.loop)
        private = Private(self.array, self.loop)
        return tree_with_private(with_private(model_of(nest), private).nest, tree, private)

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Privatize]:
        for array in nest.arrays:
            if array.role is not Role.SCALAR and array.private is None:
                for loop in loops(tree):
                    step = cls(array.name, loop.name)
                    if step._applies(nest, tree):
                        yield step

    def _applies(self, nest: Nest, tree: Node) -> bool:
        try:
            self.apply(nest, tree)
        except StepError:
            return False
        return True
