"""The step `register_tile`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import chain_of, chains, loop_named, nested
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.vectorize import vector_obstacle
from optimizer.polyhedral.tree import Loop, Node, loops, replace_loop

SHAPES = ((4, 16), (8, 16), (8, 24), (4, 32))
"""Rows and columns that `options` proposes."""
LARGEST = 64
"""Of a size."""
MOST_ELEMENTS = 1024
"""Of a tile: they should all be in registers."""


@dataclass(frozen=True, slots=True)
class RegisterTile(Step):
    """Compute small tiles of two or more loops in registers.

    Loops are cut into tiles as `tile` does. The loops inside a tile move into all other loops of the perfect nest,
    where they are written out, the last one as vectors.

    args:
        sizes: each loop with the number of its values in a tile. The last loop named runs as vectors: its size is a
            multiple of their lanes, and it walks along the rows of what is written. What the tile writes stays in
            registers while the innermost other loop runs, if nothing else in that loop touches it; tiles that are not
            full run from memory.
    rewrite:
        for i: for j: for k: C[i, j] += ...   ->   for i_t: for j_t: for k: C[8*i_t .. , 24*j_t .. ] += ...
        with register_tile(i=8, j=24)
    """

    name: ClassVar[str] = "register_tile"
    sizes: tuple[tuple[LoopName, int], ...]

    def __post_init__(self) -> None:
        if not self.sizes:
            raise StepError("register_tile needs loops and sizes, such as register_tile(i=8, j=24)")
        if len(dict(self.sizes)) < len(self.sizes):
            raise StepError("register_tile takes each loop once")
        for loop, size in self.sizes:
            if not 2 <= size <= LARGEST:
                allowed = tuple((name, min(max(size, 2), LARGEST)) for name, size in self.sizes)
                raise StepError(
                    f"the size of {loop} in a register tile must be from 2 to {LARGEST}, not {size}",
                    (str(replace(self, sizes=allowed)),) if _elements(allowed) <= MOST_ELEMENTS else (),
                )
        if _elements(self.sizes) > MOST_ELEMENTS:
            raise StepError(f"a register tile has at most {MOST_ELEMENTS} elements, not {_elements(self.sizes)}")

    def apply(self, nest: Nest, tree: Node) -> Node:
        names = [name for name, _ in self.sizes]
        for name in names:
            _check_is_plain(loop_named(tree, name))
        tiled = Tile(self.sizes).apply(nest, tree)
        first = chain_of(tree, names)[0].name
        before = {loop.name for loop in loops(tree)}
        top = next(loop for loop in loops(tiled) if loop.name not in before)
        *_, innermost = chain = next(chain for chain in chains(tiled) if top in chain)
        chain = chain[chain.index(top) :]
        if any(loops(innermost.body)):
            raise StepError(f"{innermost.name} has several parts", (f"distribute({innermost.name})",))
        by_name = {loop.name: loop for loop in chain}
        *rows, columns = names
        if reason := vector_obstacle(nest, by_name[columns]):
            raise StepError(f"{columns} cannot be vectorized: {reason}")
        outside = [loop for loop in chain if loop.name not in names]
        if len(outside) == len(names):
            whole = next(chain for chain in chains(tree) if first in (loop.name for loop in chain))
            others = [loop.name for loop in whole if loop.name not in names]
            near = (f"reorder({', '.join([*names, *others])})",) if others else ()
            raise StepError(
                f"there is no other loop inside {first}: a register tile keeps what it computes for one", near
            )
        points = [*(replace(by_name[name], unroll=0) for name in rows), replace(by_name[columns], unroll=0, vector=0)]
        return replace_loop(tiled, top.name, lambda _: nested([*outside, *points], innermost.body))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[RegisterTile]:
        for chain in chains(tree):
            if any(loops(chain[-1].body)) or any(loop.unroll != 1 or loop.vector != 1 for loop in chain):
                continue
            for rows, columns in permutations(chain, 2):
                others = chain[min(chain.index(rows), chain.index(columns)) :]
                is_plain = not rows.is_parallel and not columns.is_parallel
                if is_plain and len(others) > 2 and not vector_obstacle(nest, columns):
                    for shape in SHAPES:
                        yield cls(((rows.name, shape[0]), (columns.name, shape[1])))


def _elements(sizes: tuple[tuple[str, int], ...]) -> int:
    return prod(size for _, size in sizes)


def _check_is_plain(loop: Loop) -> None:
    for what, is_so in (
        ("parallel", loop.is_parallel),
        ("unrolled", loop.unroll != 1),
        ("vectorized", loop.vector != 1),
    ):
        if is_so:
            raise StepError(f"{loop.name} is {what}, so it cannot be inside a register tile")
