"""The step `tile`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.affine import factor_text
from optimizer.polyhedral.steps.arguments import LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import chain_of, chains, change_values, fresh_names, nested, tile_name
from optimizer.polyhedral.tree import Leaf, Loop, Node, replace_loop

SIZES = (8, 16, 32, 64, 128)
"""What `options` proposes."""
LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Tile(Step):
    """Cut the iterations of loops into tiles, and run tile after tile.

    args:
        sizes: each loop with the number of its values in a tile, 2 or more. The loops over tiles are called `i_t`
            for i, those over tiles of tiles `i_tt`; they stand where the outermost loop named here stood, in the
            order given, and the loops themselves stay where they are.
    rewrite:
        for i: for j: S0   ->   for i_t: for j_t: for i: for j: S0        with tile(i=32, j=8)
        where i_t is i // 32 and j_t is j // 8
    """

    name: ClassVar[str] = "tile"
    sizes: tuple[tuple[LoopName, int], ...]

    def __post_init__(self) -> None:
        if not self.sizes:
            raise StepError("tile needs a loop and a size, such as tile(i=32)")
        if len(dict(self.sizes)) < len(self.sizes):
            raise StepError("tile takes each loop once; tile(i_t=8) makes tiles of tiles")
        for loop, size in self.sizes:
            if not 2 <= size <= LARGEST:
                raise StepError(
                    f"the tile size of {loop} must be from 2 to {LARGEST}, not {size}", (f"tile({loop}=32)",)
                )

    def apply(self, nest: Nest, tree: Node) -> Node:
        sizes = dict(self.sizes)
        chain = chain_of(tree, sizes)
        tiles = dict(zip(sizes, fresh_names(nest, tree, [tile_name(loop) for loop in sizes]), strict=True))

        def tile_values(leaf: Leaf) -> dict[str, str]:
            return {tiles[loop]: f"floor({factor_text(leaf.values[loop])}/{size})" for loop, size in sizes.items()}

        tile_loops = [Loop(tiles[loop], chain[0]) for loop in sizes]
        return replace_loop(tree, chain[0].name, lambda loop: nested(tile_loops, change_values(loop, tile_values)))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Tile]:
        """Every run of one to three neighbouring loops, with one size for all."""
        for chain in chains(tree):
            names = [loop.name for loop in chain]
            for first in range(len(names)):
                for last in range(first, min(first + 3, len(names))):
                    for size in SIZES:
                        yield cls(tuple((loop, size) for loop in names[first : last + 1]))
