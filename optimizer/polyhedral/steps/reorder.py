"""The step `reorder`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import chain_of, chains, nested
from optimizer.polyhedral.tree import Node, replace_loop


@dataclass(frozen=True, slots=True)
class Reorder(Step):
    """Give loops of one perfect nest another order.

    args:
        order: two loops or more, the outermost first; they share out the places they have, other loops stay.
    rewrite:
        for i: for j: for k: S0   ->   for k: for i: for j: S0        with reorder(k, i, j)
    """

    name: ClassVar[str] = "reorder"
    order: tuple[LoopName, ...]

    def __post_init__(self) -> None:
        if len(self.order) < 2 or len(set(self.order)) < len(self.order):
            raise StepError(f"reorder takes two or more different loops, not ({', '.join(self.order)})")

    def apply(self, nest: Nest, tree: Node) -> Node:
        present = [loop.name for loop in chain_of(tree, self.order) if loop.name in self.order]
        if tuple(present) == self.order:
            raise StepError(f"{', '.join(self.order)} are in this order already")
        return put_in_order(tree, dict(zip(present, self.order, strict=True)))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Reorder]:
        """Each loop moved inwards or outwards by two places or more; `interchange` has the neighbours."""
        for chain in chains(tree):
            names = [loop.name for loop in chain]
            for first in range(len(names)):
                for last in range(first + 2, len(names)):
                    outer, *inner = names[first : last + 1]
                    yield cls((*inner, outer))
                    *outer_ones, innermost = names[first : last + 1]
                    yield cls((innermost, *outer_ones))


def put_in_order(tree: Node, replacements: Mapping[str, str]) -> Node:
    """The tree with the loop of each key's place taken by the loop that its value names; all in one perfect nest."""
    chain = chain_of(tree, replacements)
    by_name = {loop.name: loop for loop in chain}
    ordered = [by_name[replacements.get(loop.name, loop.name)] for loop in chain]
    return replace_loop(tree, chain[0].name, lambda _: nested(ordered, chain[-1].body))
