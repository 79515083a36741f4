"""Templates with register tiles, for chains of loops that add up into an array."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import islpy as isl

from optimizer.polyhedral.locality import extents, strides
from optimizer.polyhedral.packable import packable_reads, tile_leaves
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.pack import Pack
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.structure import around, chains, loop_named, tile_name
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Leaf, Loop, leaves, loops

DEPTHS = (256, None)
"""How many iterations of the loop around a register tile run before the next tile: what they read stays in a cache.
None: all."""


PACKED_DEPTH = 256
PACKED_ROWS, FEW_PACKED_ROWS = 256, 96
"""Copies of so many rows, and of one vector panel, stay in the second level of cache. Few where rows do not take
equally long, or where many threads want some."""
FEW_THREADS = 4

BLOCK_TILES = (2, 4)
"""A block of an elimination is as wide as so many register tiles. Few: its own columns take longer for each operation
than the update to the right of them, and their number of operations grows with the width."""
ROWS_TOGETHER = 8
"""Rows of the block's own columns that run together: they read the same, and none waits for another."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The loops of a chain by what they do to the array that its statements add to."""

    others: tuple[str, ...]
    rows: str
    """Walks from row to row."""
    columns: str
    """Walks along a row."""
    depth: str
    """Stays at an element."""

    @property
    def order(self) -> tuple[str, ...]:
        return (*self.others, self.rows, self.columns, self.depth)


def register_tilings(draft: Draft, shape: tuple[int, int], sizes: Mapping[str, int], threads: int) -> Iterator[Draft]:
    """The draft with a register tile in every chain that can have one, first those that read copies, then for each
    depth those that read the arrays; none where no chain can."""
    for depth in (0, *DEPTHS):
        tiled = draft
        for chain in tuple(chains(draft.tree)):
            packed = None if depth != 0 else _packed(tiled, chain, shape, sizes, threads)
            tiled = packed or _tiled(tiled, chain, shape, depth or None, threads) or tiled
        if tiled is not draft:
            yield tiled


def _packed(
    draft: Draft, chain: tuple[Loop, ...], shape: tuple[int, int], sizes: Mapping[str, int], threads: int
) -> Draft | None:
    """Blocks of rows run on threads; in each, panels of columns; for each, the tiles of the block. Each reads copies:
    of the columns, one for all threads, and of the rows, one for a block."""
    if has_threads_outside(draft, chain):
        return None
    for found in accumulations(draft, chain):
        if found.others:
            continue
        block = FEW_PACKED_ROWS
        if threads <= FEW_THREADS and share_of(draft, found.rows) == "blocks":
            block = _rows_of_a_block(draft, chain, found.rows, shape[0], sizes, threads)
        ordered = in_order(draft, found.order, tuple(loop.name for loop in chain))
        cut = ordered and ordered.then(Tile(((found.depth, PACKED_DEPTH), (found.rows, block))))
        if cut is None:
            continue
        pieces, blocks = cut.new_loops(draft)
        arranged = cut.then(Reorder((pieces, blocks, found.columns, found.rows, found.depth)))
        tiled = arranged and arranged.then(RegisterTile(((found.rows, shape[0]), (found.columns, shape[1]))))
        if arranged is None or tiled is None:
            continue
        rows, columns = tiled.new_loops(arranged)
        moved = tiled.then(Reorder((columns, rows)))
        if moved is None:
            continue
        shared, own, along = blocks, columns, found.columns
        if not moved.is_parallel(blocks) and moved.is_parallel(columns):
            shared, own, along = columns, blocks, found.rows
            moved = moved.then(Reorder((columns, blocks))) or moved
        if threads > 1 and moved.is_parallel(shared):
            moved = moved.with_threads_on(shared, share_of(moved, shared)) or moved
        packed = moved
        for array, moves in reads_that_move(moved, shared, along).items():
            packed = packed.then(Pack(array, shared if moves else own)) or packed
        if packed is not moved:
            return packed
    return None


def _rows_of_a_block(
    draft: Draft, chain: tuple[Loop, ...], rows: str, height: int, sizes: Mapping[str, int], threads: int
) -> int:
    """At most `PACKED_ROWS`, and as many as give every thread equally many blocks; a multiple of a tile's height."""
    leaf = next(leaves(chain[-1]))
    count = extents(draft.model, leaf.statement, sizes).get(leaf.values[rows])
    if not count:
        return PACKED_ROWS
    blocks = math.ceil(count / PACKED_ROWS / threads) * threads
    return min(PACKED_ROWS, max(1, math.ceil(count / blocks / height)) * height)


def reads_that_move(draft: Draft, inside: str, along: str) -> dict[str, bool]:
    """For each array that register tiles inside a loop read, whether some read moves along another loop."""
    found: dict[str, bool] = {}
    for leaf in tile_leaves(loop_named(draft.tree, inside)):
        statement = draft.model.nest.statement(leaf.statement)
        jumps = dict(zip(statement.accesses, strides(draft.model.nest, leaf, along), strict=False))
        for access in packable_reads(statement):
            found[access.array] = found.get(access.array, False) or jumps.get(access, 1.0) != 0
    return found


def _tiled(
    draft: Draft, chain: tuple[Loop, ...], shape: tuple[int, int], depth: int | None, threads: int
) -> Draft | None:
    for found in accumulations(draft, chain):
        arranged = in_order(draft, found.order, tuple(loop.name for loop in chain))
        if arranged is not None and depth is not None:
            arranged = _cut(arranged, found, depth)
        if arranged is None:
            continue
        tiled = arranged.then(RegisterTile(((found.rows, shape[0]), (found.columns, shape[1]))))
        if tiled is not None:
            if threads == 1 or has_threads_outside(draft, chain):
                return tiled
            return _threaded(tiled, [*found.others, *tiled.new_loops(arranged)])
    return None


def has_threads_outside(draft: Draft, chain: tuple[Loop, ...]) -> bool:
    """Whether a loop further out can run on threads, which start once then for all of the chain."""
    return any(draft.is_parallel(loop.name) for loop in around(draft.tree, chain[0].name))


def eliminations(draft: Draft, shape: tuple[int, int], threads: int) -> Iterator[Draft]:
    """The draft with a chain of three loops as a blocked elimination: LU, Cholesky and their like.

    Of each block of the depth come first the rows that later ones need, then all rows below on threads: there the
    columns of the block, and then the update of all columns to the right in a register tile, which reads copies if it
    can.
    """
    for chain in tuple(chains(draft.tree)):
        if len(chain) != 3 or any(loops(chain[-1].body)):
            continue
        for rows, columns, depth in permutations([loop.name for loop in chain], 3):
            inside = tuple(leaves(chain[-1]))
            if any(_accumulates(draft, leaf, rows, columns, depth) and _reads_its_own(draft, leaf) for leaf in inside):
                for tiles in BLOCK_TILES:
                    yield from _elimination(draft, rows, columns, depth, shape, tiles * shape[1], threads)


def _elimination(
    draft: Draft, rows: str, columns: str, depth: str, shape: tuple[int, int], size: int, threads: int
) -> Iterator[Draft]:
    """With blocks of that size: with copies for the update, and without."""
    tiled = draft.then(Tile(((depth, size), (rows, size), (columns, size))))
    if tiled is None:
        return
    block, row_tiles, column_tiles = tiled.new_loops(draft)
    after = f"{block} + 1"
    halved = tiled.then(Split(row_tiles, after))
    if halved is None:
        return
    below, columns_below = halved.new_loops(tiled)[:2]
    quartered = halved.then(Split(columns_below, after))
    if quartered is None:
        return
    update = quartered.new_loops(halved)[1:]
    # What a row's update needs of other rows, and its copies, come first for all of them.
    apart = quartered.then(Distribute(below))
    found = apart and _updated([below, *apart.new_loops(quartered)[:1]], apart, update, shape)
    packed = found and _with_copies(found)
    if quartered.is_parallel(below):
        found = _updated([below], quartered, update, shape)
    for blocked in (packed, found):
        if blocked is not None:
            yield blocked.draft if threads == 1 else _on_threads(blocked, column_tiles, after)


@dataclass(frozen=True, slots=True)
class Blocked:
    """An elimination in blocks, on one thread."""

    draft: Draft
    parts: list[str]
    """The loops over the rows below a block, one after the other; the last one updates what is to the right."""


def _updated(parts: list[str], draft: Draft, update: list[str], shape: tuple[int, int]) -> Blocked | None:
    tiled = _update(draft, update, shape)
    return tiled and Blocked(_rows_together(tiled, parts[0]), parts)


def _rows_together(draft: Draft, part: str) -> Draft:
    """Several rows at a time in the columns of a block, the first of what a loop runs."""
    columns = next(chain for chain in chains(loop_named(draft.tree, part)) if not any(loops(chain[-1].body)))
    for loop in reversed(columns) if columns[-1].unroll == 1 else ():
        if all(_written_jump(draft, leaf, loop.name) > 1 for leaf in leaves(loop)):
            return draft.then(UnrollAndJam(loop.name, ROWS_TOGETHER)) or draft
    return draft


def _with_copies(blocked: Blocked) -> Blocked | None:
    """With copies of what the update reads, made before it; None where none can be."""
    *_, update = blocked.parts
    draft = blocked.draft
    for array in dict.fromkeys(step.array for step in Pack.options(draft.model.nest, loop_named(draft.tree, update))):
        draft = draft.then(Pack(array, update)) or draft
    return None if draft is blocked.draft else replace(blocked, draft=draft)


def _update(draft: Draft, names: list[str], shape: tuple[int, int]) -> Draft | None:
    """With a register tile in the perfect nest of these loops, other statements taken out of it."""
    for rows, columns, depth in permutations(names, 3):
        inside = tuple(leaves(loop_named(draft.tree, names[0])))
        found = [_accumulates(draft, leaf, rows, columns, depth) for leaf in inside]
        if not any(found):
            continue
        apart = draft if all(found) else draft.then(*(Distribute(name) for name in reversed(names)))
        arranged = apart and in_order(apart, (rows, columns, depth), tuple(names))
        if arranged is not None:
            return arranged.then(RegisterTile(((rows, shape[0]), (columns, shape[1]))))
    return None


def _on_threads(blocked: Blocked, column_tiles: str, after: str) -> Draft:
    """The rows below a block on threads, and of its own rows the columns to the right."""
    draft = blocked.draft
    for part in blocked.parts:
        threaded = draft.with_threads_on(part, share_of(draft, part)) if draft.is_parallel(part) else None
        draft = threaded or draft
    split = draft.then(Split(column_tiles, after))
    if split is None or not split.is_parallel(right := split.new_loops(draft)[0]):
        return draft
    return split.with_threads_on(right) or draft


def share_of(draft: Draft, loop: str) -> str:
    """`ends` for a loop on which the bounds of others depend: its iterations do not take equally long."""
    for leaf in leaves(loop_named(draft.tree, loop)):
        domain = draft.model.domains[leaf.statement]
        iterators = draft.model.nest.statement(leaf.statement).iterators
        own = [place for place, name in enumerate(iterators) if re.search(rf"\b{name}\b", leaf.values[loop])]
        others = [place for place in range(len(iterators)) if place not in own]
        for part in domain.get_basic_sets():
            for constraint in part.get_constraints():
                involved = [constraint.involves_dims(isl.dim_type.set, place, 1) for place in range(len(iterators))]
                if any(involved[place] for place in own) and any(involved[place] for place in others):
                    return "ends"
    return "blocks"


def _accumulates(draft: Draft, leaf: Leaf, rows: str, columns: str, depth: str) -> bool:
    jumps = {name: _written_jump(draft, leaf, name) for name in (rows, columns, depth)}
    return jumps[depth] == 0.0 and jumps[columns] == 1.0 and jumps[rows] > 1


def _reads_its_own(draft: Draft, leaf: Leaf) -> bool:
    """Whether a statement reads other elements of the array that it writes to."""
    accesses = draft.model.nest.statement(leaf.statement).accesses
    written = [access for access in accesses if access.is_write]
    return any(
        read.array == write.array and read.subscripts != write.subscripts
        for read in accesses
        if not read.is_write
        for write in written
    )


def accumulations(draft: Draft, chain: tuple[Loop, ...]) -> Iterator[Accumulation]:
    """Every way to see a chain as one; `chain` ends in statements."""
    if len(chain) < 3 or any(loops(chain[-1].body)) or any(loop.is_parallel for loop in chain):
        return
    inside = tuple(leaves(chain[-1]))
    names = [loop.name for loop in chain]
    for rows, columns, depth in permutations(names, 3):
        if all(_accumulates(draft, leaf, rows, columns, depth) for leaf in inside):
            yield Accumulation(tuple(n for n in names if n not in (rows, columns, depth)), rows, columns, depth)


def _written_jump(draft: Draft, leaf: Leaf, loop: str) -> float:
    """How far what a statement writes moves with a loop."""
    accesses = draft.model.nest.statement(leaf.statement).accesses
    jumps = strides(draft.model.nest, leaf, loop)
    return next((jump for access, jump in zip(accesses, jumps, strict=False) if access.is_write), -1.0)


def in_order(draft: Draft, order: tuple[str, ...], now: tuple[str, ...]) -> Draft | None:
    return draft if order == now else draft.then(Reorder(order))


def _cut(draft: Draft, found: Accumulation, depth: int) -> Draft | None:
    """The depth cut into pieces, all of one before the next."""
    piece = tile_name(found.depth)
    order = (*found.others, piece, found.rows, found.columns, found.depth)
    return draft.then(Tile(((found.depth, depth),)), Reorder(order))


def _threaded(draft: Draft, candidates: list[str]) -> Draft:
    """The first of the loops that can runs on threads, the pieces of the depth outside of it."""
    for place, name in enumerate(candidates):
        if draft.is_parallel(name):
            moved = draft if place == 0 else draft.then(Reorder((name, *candidates[:place]))) or draft
            return moved.with_threads_on(name, share_of(moved, name)) or draft
    return draft
