"""Templates for products that stay in a cache from their first term to what is made of them.

    for i: for j: T = 0                           for i_t: for j_t:
    for i: for j: for k: T += A * B       ->          T = 0, of one panel of columns in one block of rows
    for i: for j: C = alpha * T + beta * C            T += A * B, in register tiles, for all k
                                                      C = alpha * T + beta * C

Where the depth is cut into pieces instead, each of them loads and stores all of the product: faster where the product
is in a cache, and much slower where memory is slow, or others use it too. Blocks as in the matrix product of K. Goto,
R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008, but for the depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from optimizer.polyhedral.footprint import range_of
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.pack import Pack
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.register import (
    FEW_PACKED_ROWS,
    accumulations,
    has_threads_outside,
    in_order,
    reads_that_move,
    share_of,
)
from optimizer.polyhedral.tree import Loop, Node, Sequence, leaves, loops, sequences

CACHE = 1 << 20
"""Bytes of the copy of a block of rows: half of a second level of cache, beside a panel of columns."""
MOST_ROWS, LEAST_TILES = 256, 4
"""Of a block: rows at most, and register tiles at least, since each block reads all panels."""
ITEM = 8


@dataclass(frozen=True, slots=True)
class Panels:
    """A chain in blocks of rows, and in those in panels of columns."""

    draft: Draft
    blocks: str
    panels: str
    rows: tuple[int, int]
    """The least and the greatest row, ..."""
    columns: tuple[int, int]
    """... and column."""
    sizes: tuple[int, int]
    """Rows of a block and columns of a panel."""


def panels(draft: Draft, shape: tuple[int, int], sizes: Mapping[str, int], threads: int) -> Iterator[Draft]:
    """The draft with every chain that adds up products in panels of the whole depth; none where no chain can."""
    result = draft
    for chain in tuple(chains(draft.tree)):
        result = _in_panels(result, chain, shape, sizes, threads) or result
    if result is not draft:
        yield result


def _in_panels(
    draft: Draft, chain: tuple[Loop, ...], shape: tuple[int, int], sizes: Mapping[str, int], threads: int
) -> Draft | None:
    """One chain in panels, with the statements around it that are about the same rows and columns."""
    if has_threads_outside(draft, chain):
        return None
    for found in accumulations(draft, chain):
        leaf = next(leaves(chain[-1]))
        ranges = {name: range_of(draft.model, leaf, name, sizes) for name in found.order}
        rows, columns, depth = (ranges[name] for name in (found.rows, found.columns, found.depth))
        if found.others or rows is None or columns is None or depth is None:
            continue
        most = MOST_ROWS if share_of(draft, found.rows) == "blocks" else FEW_PACKED_ROWS
        block = _rows_of_a_block(rows[1] - rows[0] + 1, depth[1] - depth[0] + 1, shape[0], threads, most)
        if block is None:
            continue
        ordered = in_order(draft, found.order, tuple(loop.name for loop in chain))
        cut = ordered and ordered.then(Tile(((found.rows, block),)))
        tiled = cut and cut.then(RegisterTile(((found.rows, shape[0]), (found.columns, shape[1]))))
        if ordered is None or cut is None or tiled is None:
            continue
        (blocks,) = cut.new_loops(ordered)
        tiles, across = tiled.new_loops(cut)
        moved = tiled.then(Reorder((across, tiles)))
        if moved is None or not moved.is_parallel(blocks):
            continue
        made = _with_neighbours(Panels(moved, blocks, across, rows, columns, (block, shape[1])), sizes)
        together = made.draft
        if threads > 1:
            together = together.with_threads_on(made.blocks, share_of(together, made.blocks)) or together
        packed = together
        for array, moves in reads_that_move(together, made.panels, found.columns).items():
            packed = packed.then(Pack(array, made.blocks if moves else made.panels)) or packed
        if packed is not together:
            return packed
    return None


def _rows_of_a_block(rows: int, depth: int, height: int, threads: int, most: int) -> int | None:
    """At most so many, as many as the cache holds, and so that threads have equally many blocks; None where a block
    would have too few to be worth the panels that it reads. A multiple of a tile's height."""
    most = min(most, CACHE // (ITEM * depth)) // height * height
    if most < LEAST_TILES * height:
        return None
    blocks = math.ceil(rows / most / threads) * threads
    return min(most, max(1, math.ceil(rows / blocks / height)) * height)


def _with_neighbours(made: Panels, sizes: Mapping[str, int]) -> Panels:
    """With the loops directly before and after it in its blocks and panels, as long as they are about the same."""
    for is_before in (True, False):
        while joined := _with_neighbour(made, sizes, is_before):
            made = joined
    return made


def _with_neighbour(made: Panels, sizes: Mapping[str, int], is_before: bool) -> Panels | None:
    neighbour = _neighbour(made.draft.tree, made.blocks, is_before)
    nested = next(chains(neighbour)) if isinstance(neighbour, Loop) else ()
    if len(nested) != 2 or any(loops(nested[-1].body)) or any(loop.is_parallel for loop in nested):
        return None
    for outer, inner in (nested, nested[::-1]):
        if _range(made.draft, outer, sizes) == made.rows and _range(made.draft, inner, sizes) == made.columns:
            cut = made.draft.then(Tile(((outer.name, made.sizes[0]), (inner.name, made.sizes[1]))))
            joined = cut and _joined(made, cut, cut.new_loops(made.draft), is_before)
            if joined is not None and joined.draft.is_parallel(joined.blocks):
                return joined
    return None


def _joined(made: Panels, cut: Draft, tiles: list[str], is_before: bool) -> Panels | None:
    """Blocks with blocks, and panels with panels."""
    pairs = [
        (tile, own) if is_before else (own, tile) for tile, own in zip(tiles, (made.blocks, made.panels), strict=True)
    ]
    together = cut.then(*(Fuse(first, second) for first, second in pairs))
    return together and replace(made, draft=together, blocks=pairs[0][0], panels=pairs[1][0])


def _neighbour(tree: Node, loop: str, is_before: bool) -> Node | None:
    """What is directly before or after a loop."""
    for sequence in (tree, *sequences(tree)):
        parts = sequence.parts if isinstance(sequence, Sequence) else ()
        places = [k for k, part in enumerate(parts) if isinstance(part, Loop) and part.name == loop]
        for place in places:
            beside = place - 1 if is_before else place + 1
            return parts[beside] if 0 <= beside < len(parts) else None
    return None


def _range(draft: Draft, loop: Loop, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    ranges = [found for leaf in leaves(loop) if (found := range_of(draft.model, leaf, loop.name, sizes))]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
