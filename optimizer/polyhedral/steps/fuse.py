"""The step `fuse`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import PartName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import (
    change_values,
    check_part_exists,
    map_sequences,
    part_name,
    rename_loops,
)
from optimizer.polyhedral.tree import Loop, Node, Sequence, sequence_of, sequences


@dataclass(frozen=True, slots=True)
class Fuse(Step):
    """Join two neighbours into one loop: two loops, or a loop and a statement.

    args:
        first, second: one directly after the other. Of two loops the first one's name stays. A statement runs where
            the loop has the value 0; `shift` moves it from there.
    rewrite:
        for i: S0; for i_2: S1   ->   for i: (S0; S1)                      with fuse(i, i_2)
        for k: S0; S1            ->   for k: (S0; S1 if k is 0)            with fuse(k, S1)
    """

    name: ClassVar[str] = "fuse"
    first: PartName
    second: PartName

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise StepError(f"fuse takes two different parts, not {self.first} twice")

    def apply(self, nest: Nest, tree: Node) -> Node:
        check_part_exists(tree, self.first)
        check_part_exists(tree, self.second)
        if not any(self._place(sequence) is not None for sequence in sequences(tree)):
            raise self._refusal(nest, tree)

        def join(sequence: Sequence) -> Node:
            place = self._place(sequence)
            if place is None:
                return sequence
            before, after = sequence.parts[:place], sequence.parts[place + 2 :]
            return sequence_of(*before, _joined(*sequence.parts[place : place + 2]), *after)

        return map_sequences(tree, join)

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Fuse]:
        seen: set[Fuse] = set()
        for sequence in sequences(tree):
            for first, second in pairwise(sequence.parts):
                if _has_loop(first, second) and not _differ_in_marks(first, second):
                    option = cls(part_name(first), part_name(second))
                    if option not in seen:
                        seen.add(option)
                        yield option

    def _place(self, sequence: Sequence) -> int | None:
        """Where the two stand in a sequence, one directly after the other, at least one of them a loop."""
        for index, (first, second) in enumerate(pairwise(sequence.parts)):
            are_called = part_name(first) == self.first and part_name(second) == self.second
            if are_called and _has_loop(first, second):
                return index
        return None

    def _refusal(self, nest: Nest, tree: Node) -> StepError:
        for sequence in sequences(tree):
            first = [index for index, part in enumerate(sequence.parts) if part_name(part) == self.first]
            second = [index for index, part in enumerate(sequence.parts) if part_name(part) == self.second]
            for p, q in product(first, second):
                if not _has_loop(sequence.parts[p], sequence.parts[q]):
                    return StepError(f"{self.first} and {self.second} are statements: one of the two must be a loop")
                if p == q + 1:
                    return StepError(f"{self.second} is before {self.first}", (f"fuse({self.second}, {self.first})",))
                between = [part_name(part) for part in sequence.parts[min(p, q) + 1 : max(p, q)]]
                order = ", ".join([self.first, self.second, *between])
                return StepError(
                    f"{self.first} and {self.second} are not neighbours, between them is {', '.join(between)}",
                    (f"reorder_statements({order})",),
                )
        named = {self.first, self.second}
        near = [str(option) for option in self.options(nest, tree) if named & {option.first, option.second}]
        return StepError(f"{self.first} and {self.second} are not neighbours in one loop", tuple(near))


def _has_loop(first: Node, second: Node) -> bool:
    return isinstance(first, Loop) or isinstance(second, Loop)


def _differ_in_marks(first: Node, second: Node) -> bool:
    if not (isinstance(first, Loop) and isinstance(second, Loop)):
        return False
    marks = ((loop.is_parallel, loop.unroll, loop.vector, loop.partials, loop.streams) for loop in (first, second))
    return next(marks) != next(marks)


def _joined(first: Node, second: Node) -> Node:
    if isinstance(first, Loop) and isinstance(second, Loop):
        if _differ_in_marks(first, second):
            raise StepError(f"{first.name} and {second.name} differ in their marks: fuse them before marking them")
        return replace(first, body=sequence_of(first.body, rename_loops(second.body, {second.name: first.name})))
    if isinstance(first, Loop):
        return replace(first, body=sequence_of(first.body, change_values(second, lambda _: {first.name: "0"})))
    assert isinstance(second, Loop)
    return replace(second, body=sequence_of(change_values(first, lambda _: {second.name: "0"}), second.body))
