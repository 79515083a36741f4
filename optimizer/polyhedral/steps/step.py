"""What a step is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol, Self

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import text_of
from optimizer.polyhedral.tree import Node


class Step(Protocol):
    """One loop transformation: a frozen dataclass whose fields are its options.

    A step checks only that it makes sense for the tree: what is legal is decided on the finished schedule.
    """

    __slots__ = ()

    name: ClassVar[str]

    def apply(self, nest: Nest, tree: Node) -> Node:
        """A new tree; StepError says what stands in the way and names the loops there are."""
        ...

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Self]:
        """The instances that make sense for this tree, always in the same order. A few may still be refused."""
        ...

    def __str__(self) -> str:
        """The text that parses to this step."""
        return text_of(self)
