"""The step `stream`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Access, Nest, Role
from optimizer.polyhedral.steps.arguments import ArrayName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import around
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.tree import Leaf, Loop, Node, leaves, loops, replace_loop


@dataclass(frozen=True, slots=True)
class Stream(Step):
    """Let vector loops write an array past the caches.

    args:
        array: large, and not read soon.
    rewrite:
        B[j] = e   ->   the same, B's lines not loaded
    """

    name: ClassVar[str] = "stream"
    array: ArrayName

    def apply(self, nest: Nest, tree: Node) -> Node:
        arrays = [array.name for array in nest.arrays if array.role is not Role.SCALAR]
        if self.array not in arrays:
            raise StepError(f"there is no array {self.array}; there are {', '.join(arrays) or 'none'}")
        writing = [loop for loop in loops(tree) if _writes_rows(nest, loop, self.array)]
        vectors = [loop for loop in writing if loop.vector != 1]
        if not vectors:
            possible = {str(step) for step in Vectorize.options(nest, tree)}
            near = (str(Vectorize(loop.name)) for loop in writing)
            raise StepError(
                f"no vector loop writes neighbours of {self.array}: vectorize the loop along its rows first",
                tuple(step for step in near if step in possible),
            )
        chosen = [loop for loop in vectors if self.array not in loop.streams]
        if not chosen:
            raise StepError(f"{self.array} is streamed already")
        for loop in chosen:
            if reader := _reader(nest, tree, loop, self.array):
                raise StepError(
                    f"{reader.statement} reads {self.array} in a loop that also writes it in {loop.name}: "
                    "it had better stay in the caches"
                )
        for loop in chosen:
            tree = replace_loop(tree, loop.name, lambda found: replace(found, streams=(*found.streams, self.array)))
        return tree

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Stream]:
        for array in nest.arrays if any(loop.vector != 1 for loop in loops(tree)) else ():
            step = cls(array.name)
            try:
                step.apply(nest, tree)
            except StepError:
                continue
            yield step


def _writes_rows(nest: Nest, loop: Loop, array: str) -> bool:
    """Whether a loop that is in no register tile writes neighbours of an array in its iterations."""
    from optimizer.polyhedral.locality import strides

    if loop.unroll != 1 or loop.is_parallel or any(inner.unroll == 1 for inner in loops(loop.body)):
        return False
    return any(
        access.is_write and access.array == array and jump == 1.0
        for leaf in leaves(loop)
        for access, jump in zip(nest.statement(leaf.statement).accesses, strides(nest, leaf, loop.name), strict=False)
    )


def _reader(nest: Nest, tree: Node, loop: Loop, array: str) -> Leaf | None:
    """What reads an array within one iteration of no loop that moves what a vector loop writes of it."""
    written = [(leaf, access) for leaf in leaves(loop) for access in _accesses(nest, leaf, array) if access.is_write]
    for outer in (*around(tree, loop.name), loop):
        if any(_moves(leaf, outer, access) for leaf, access in written):
            for leaf in leaves(outer):
                if any(not access.is_write for access in _accesses(nest, leaf, array)):
                    return leaf
    return None


def _accesses(nest: Nest, leaf: Leaf, array: str) -> list[Access]:
    return [access for access in nest.statement(leaf.statement).accesses if access.array == array]


def _moves(leaf: Leaf, loop: Loop, access: Access) -> bool:
    """Whether a loop counts something that is in the subscripts."""
    return bool(_names(leaf.values[loop.name]) & _names(" ".join(access.subscripts)))


def _names(expression: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", expression)) - {"floor", "mod"}
