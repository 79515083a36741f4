"""Templates for what reads a matrix once: sums along its rows, or down its columns, several rows at a time.

    for i: for j: y[i] += A[i, j] * x[j]          eight rows: eight sums that do not wait for each other
    for i: for j: y[j] += A[i, j] * x[i]          eight rows: y is loaded and stored once for them

Either is bound by reading the matrix, which several rows together do at the memory's speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from optimizer.polyhedral.draft import Draft
from optimizer.polyhedral.locality import strides
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import chains, loop_named
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.tree import Leaf, Loop, Sequence, leaves, loops

ROWS = 8
"""Additions take four cycles or less, and a processor does two at once."""
PIECE = 8
"""Each thread's columns are a multiple of so many, a vector or a line of the cache."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The two loops of a chain by how they walk a matrix."""

    rows: str
    columns: str
    is_along_rows: bool
    """Whether each row has a sum of its own; otherwise each column has."""
    width: str
    """Of the matrix: an expression over the parameters."""


def jams(draft: Draft, sizes: Mapping[str, int], threads: int) -> Iterator[Draft]:
    """The draft with several rows at a time wherever it sums up a matrix: in the loops that run several parts for each
    row, all of them for some rows before the next; and in every chain. None where there is nothing like it."""
    blocked = draft
    for loop in tuple(loops(draft.tree)):
        blocked = _blocked(blocked, loop, threads) or blocked
    if blocked is not draft:
        yield blocked
    jammed = draft
    for chain in tuple(chains(draft.tree)):
        sums = _sums(draft, chain)
        if sums is not None:
            jammed = _jammed(jammed, sums, (chain[0].name, chain[1].name), sizes, threads) or jammed
    if jammed is not draft:
        yield jammed


def _blocked(draft: Draft, loop: Loop, threads: int) -> Draft | None:
    """With the parts of a loop's body apart for each block of rows, so that a block is in the cache after the first."""
    if not isinstance(loop.body, Sequence) or loop.is_parallel or not draft.is_parallel(loop.name):
        return None
    blocks = draft.then(Tile(((loop.name, ROWS),)), Distribute(loop.name))
    if blocks is None:
        return None
    block = blocks.new_loops(draft)[0]
    jammed = blocks
    for chain in tuple(chains(loop_named(blocks.tree, block).body)):
        sums = _sums(blocks, chain)
        if sums is not None and sums.is_along_rows and sums.rows == chain[0].name:
            jammed = jammed.then(UnrollAndJam(sums.rows, ROWS)) or jammed
    return None if jammed is blocks else _threaded(jammed, block, threads)


def _sums(draft: Draft, chain: tuple[Loop, ...]) -> Sums | None:
    if len(chain) != 2 or any(loops(chain[-1].body)) or any(loop.is_parallel or loop.unroll != 1 for loop in chain):
        return None
    outer, inner = (loop.name for loop in chain)
    inside = tuple(leaves(chain[-1]))
    for rows, columns in ((outer, inner), (inner, outer)):
        found = [_sum(draft, leaf, rows, columns) for leaf in inside]
        if found[0] is not None and all(each == found[0] for each in found):
            return found[0]
    return None


def _sum(draft: Draft, leaf: Leaf, rows: str, columns: str) -> Sums | None:
    nest = draft.model.nest
    accesses = nest.statement(leaf.statement).accesses
    jumps = list(zip(accesses, strides(draft.model, leaf, rows), strides(draft.model, leaf, columns), strict=False))
    written = [(down, along) for access, down, along in jumps if access.is_write]
    matrices = [access.array for access, down, along in jumps if not access.is_write and down > 1 and along == 1]
    if len(written) != 1 or not matrices or (written[0][0] == 0) == (written[0][1] == 0):
        return None
    return Sums(rows, columns, written[0][1] == 0, nest.array(matrices[0]).shape[-1])


def _jammed(draft: Draft, sums: Sums, now: tuple[str, str], sizes: Mapping[str, int], threads: int) -> Draft | None:
    order = (sums.rows, sums.columns)
    if now != order:
        moved = draft.then(Reorder(order))
        if moved is None:
            return None
        draft = moved
    if sums.is_along_rows or threads == 1:
        jammed = draft.then(UnrollAndJam(sums.rows, ROWS))
        return jammed and _threaded(jammed, jammed.new_loops(draft)[0], threads)
    width = sizes.get(sums.width, max(sizes.values(), default=0))
    piece = -(-width // (threads * PIECE)) * PIECE
    pieces = draft.then(Tile(((sums.columns, max(piece, PIECE)),)))
    if pieces is None:
        return None
    (tiles,) = pieces.new_loops(draft)
    jammed = pieces.then(Reorder((tiles, sums.rows, sums.columns)), UnrollAndJam(sums.rows, ROWS))
    return jammed and _threaded(jammed, tiles, threads)


def _threaded(draft: Draft, loop: str, threads: int) -> Draft:
    return (draft.with_threads_on(loop) if threads > 1 and draft.is_parallel(loop) else None) or draft
