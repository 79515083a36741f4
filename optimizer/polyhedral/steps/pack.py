"""The step `pack`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.packable import packable_reads, tile_leaves
from optimizer.polyhedral.steps.arguments import KEYWORD, ArrayName, LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import around, loop_named
from optimizer.polyhedral.tree import Loop, Node, loops, replace_loop


@dataclass(frozen=True, slots=True)
class Pack(Step):
    """Copy what register tiles read of an array, in the order in which they read it.

    The copy is made on threads where those of the schedule are inside `before`, and is the thread's own where they are
    around it.

    args:
        array: that the register tiles inside `before` read. What they write to is never copied.
        before: the loop before which the copy is made, each time that it is run. Nothing in it may write what is read
            from the copy; and nothing in a parallel loop around it may write to the array.
    rewrite:
        for k_t: for i_t: (tile reads B)   ->   for k_t: (B_packed = B[256*k_t .. ]; for i_t: (tile reads B_packed))
        with pack(B, before=i_t)
    """

    name: ClassVar[str] = "pack"
    array: ArrayName
    before: LoopName = field(metadata=KEYWORD)

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.before)
        arrays = [array.name for array in nest.arrays if array.role is not Role.SCALAR]
        if self.array not in arrays:
            raise StepError(f"there is no array {self.array}; there are {', '.join(arrays) or 'none'}")
        read = _packable(nest, loop)
        if loop.unroll != 1 or not any(tile_leaves(loop)):
            raise StepError(f"there is no register tile inside {self.before}: pack after register_tile")
        if self.array not in read:
            what = f"it reads {', '.join(read)}" if read else "it reads nothing that could be"
            raise StepError(f"no register tile inside {self.before} reads {self.array}; {what}")
        if other := _packs_already(tree, loop, self.array):
            raise StepError(f"{self.array} is packed before {other} already")
        return replace_loop(tree, self.before, lambda found: replace(found, packs=(*found.packs, self.array)))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Pack]:
        for loop in loops(tree):
            if loop.unroll == 1:
                for array in _packable(nest, loop):
                    if not _packs_already(tree, loop, array):
                        yield cls(array, loop.name)


def _packable(nest: Nest, loop: Loop) -> tuple[str, ...]:
    """The arrays that tiles inside a loop read, in order."""
    statements = {leaf.statement: nest.statement(leaf.statement) for leaf in tile_leaves(loop)}
    read = {access.array for statement in statements.values() for access in packable_reads(statement)}
    return tuple(array.name for array in nest.arrays if array.name in read and array.role is not Role.SCALAR)


def _packs_already(tree: Node, loop: Loop, array: str) -> str | None:
    """The loop before which it is: this one, or one around or inside it."""
    return next((each.name for each in (*around(tree, loop.name), *loops(loop)) if array in each.packs), None)
