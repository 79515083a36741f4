"""The step `interchange`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.reorder import put_in_order
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.tree import Node


@dataclass(frozen=True, slots=True)
class Interchange(Step):
    """Let two loops of one perfect nest change places.

    args:
        first, second: the two loops; loops between them stay where they are.
    rewrite:
        for i: for k: for j: S0   ->   for j: for k: for i: S0        with interchange(i, j)
    """

    name: ClassVar[str] = "interchange"
    first: LoopName
    second: LoopName

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise StepError(f"interchange takes two different loops, not {self.first} twice")

    def apply(self, nest: Nest, tree: Node) -> Node:
        return put_in_order(tree, {self.first: self.second, self.second: self.first})

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Interchange]:
        for chain in chains(tree):
            for outer, inner in combinations(chain, 2):
                yield cls(outer.name, inner.name)
