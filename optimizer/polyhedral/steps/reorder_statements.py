"""The step `reorder_statements`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import PartName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import check_part_exists, map_sequences, part_name
from optimizer.polyhedral.tree import Loop, Node, Sequence, leaves, sequences


@dataclass(frozen=True, slots=True)
class ReorderStatements(Step):
    """Give parts that run one after the other another order.

    args:
        order: two parts or more, the first to run first; they share out the places they have, other parts stay. A part
            is called by its loop, or by a statement that is in no other part.
    rewrite:
        for i: (S0; S1)   ->   for i: (S1; S0)        with reorder_statements(S1, S0)
    """

    name: ClassVar[str] = "reorder_statements"
    order: tuple[PartName, ...]

    def __post_init__(self) -> None:
        if len(self.order) < 2 or len(set(self.order)) < len(self.order):
            raise StepError(f"reorder_statements takes two or more different parts, not ({', '.join(self.order)})")

    def apply(self, nest: Nest, tree: Node) -> Node:
        for name in self.order:
            check_part_exists(tree, name)
        named = [places for sequence in sequences(tree) if (places := self._places(sequence)) is not None]
        listing = ", ".join(self.order)
        if not named:
            raise StepError(f"{listing} are not parts of one sequence", tuple(map(str, self.options(nest, tree))))
        if all(places == sorted(places) for places in named):
            raise StepError(f"{listing} are in this order already")

        def reordered(sequence: Sequence) -> Node:
            places = self._places(sequence)
            if places is None:
                return sequence
            parts = list(sequence.parts)
            for to, source in zip(sorted(places), places, strict=True):
                parts[to] = sequence.parts[source]
            return Sequence(tuple(parts))

        return map_sequences(tree, reordered)

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[ReorderStatements]:
        """Each two neighbours that can be named, exchanged."""
        seen: set[ReorderStatements] = set()
        for sequence in sequences(tree):
            for place, (first, second) in enumerate(pairwise(sequence.parts)):
                option = cls((part_name(second), part_name(first))) if part_name(first) != part_name(second) else None
                if option is not None and option not in seen and option._places(sequence) == [place + 1, place]:
                    seen.add(option)
                    yield option

    def _places(self, sequence: Sequence) -> list[int] | None:
        """Where the named parts are in a sequence; None unless each name tells one part from the others."""
        places = [_place(sequence, name) for name in self.order]
        known = [place for place in places if place is not None]
        return known if len(set(known)) == len(places) else None


def _place(sequence: Sequence, name: str) -> int | None:
    for index, part in enumerate(sequence.parts):
        if isinstance(part, Loop) and part.name == name:
            return index
    holding = [
        index for index, part in enumerate(sequence.parts) if any(leaf.statement == name for leaf in leaves(part))
    ]
    return holding[0] if len(holding) == 1 else None
