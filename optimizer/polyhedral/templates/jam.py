"""Templates for what reads a matrix once: sums along its rows, or down its columns, several rows at a time.

    for i: for j: y[i] += A[i, j] * x[j]          along rows: eight sums that do not wait for each other
    for i: for j: y[j] += A[i, j] * x[i]          down columns: y is loaded and stored once for eight rows

Either is bound by reading the matrix, which several rows together do at the memory's speed. Both in one loop nest read
it once for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from optimizer.polyhedral.locality import strides, tree_price
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import around, chains, loop_named
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Leaf, Loop, Sequence, leaves, loops, sequences

ROWS = 8
"""Additions take four cycles or less, and a processor does two at once."""
BLOCK = 128
"""Rows of a block of a wavefront, after each of which threads wait for each other: more of them leave threads without
work at both ends, fewer make all wait more often for one that another program holds up."""
PIECE = 8
"""Each thread's columns are a multiple of so many, a line of the cache."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The two loops of a chain by how they walk a matrix."""

    rows: str
    columns: str
    matrix: str
    along: bool
    """Whether there are sums along rows, one for each; ..."""
    down: bool
    """... whether there are sums down columns."""


def jams(draft: Draft, sizes: Mapping[str, int], threads: int) -> Iterator[Draft]:
    """The draft with several rows at a time wherever it sums up a matrix; none where it does not.

    With all that sums up a matrix in one loop nest; with the parts of a loop one after the other for each block of
    rows; with each chain of loops by itself.
    """
    drafts = (_crossed(draft, sizes, threads), _blocked(draft, sizes, threads), _each_jammed(draft, sizes, threads))
    yield from (jammed for jammed in drafts if jammed is not draft)


def _each_jammed(draft: Draft, sizes: Mapping[str, int], threads: int) -> Draft:
    jammed = draft
    for chain in tuple(chains(draft.tree)):
        sums = _sums(draft, chain)
        # A loop around it that can run on threads would have many matrices, or use one many times.
        if sums is not None and not any(draft.is_parallel(loop.name) for loop in around(draft.tree, chain[0].name)):
            jammed = _jammed(jammed, sums, sizes, threads) or jammed
    return jammed


def _jammed(draft: Draft, sums: Sums, sizes: Mapping[str, int], threads: int) -> Draft | None:
    ordered = _ordered(draft, sums)
    if ordered is None:
        return None
    if sums.along or threads == 1:
        jammed = ordered.then(UnrollAndJam(sums.rows, ROWS))
        return jammed and _threaded(jammed, jammed.new_loops(ordered)[0], sizes, threads)
    pieces = ordered.then(Tile(((sums.columns, _piece(draft, sums, sizes, threads)),)))
    if pieces is None:
        return None
    (tiles,) = pieces.new_loops(ordered)
    jammed = pieces.then(Reorder((tiles, sums.rows, sums.columns)), UnrollAndJam(sums.rows, ROWS))
    return jammed and _threaded(jammed, tiles, sizes, threads)


def _crossed(draft: Draft, sizes: Mapping[str, int], threads: int) -> Draft:
    """Sums of both kinds over one matrix, in a wavefront of blocks: each block is read once."""
    together = draft
    for loop in tuple(loops(draft.tree)):
        if isinstance(loop.body, Sequence) and any(loops(loop.body)):
            together = together.then(Distribute(loop.name)) or together
    for sequence in tuple(sequences(together.tree)):
        for first, second in pairwise(sequence.parts):
            if isinstance(first, Loop) and isinstance(second, Loop):
                together = _joined(together, first, second) or together
    crossed = draft
    for chain in tuple(chains(together.tree)):
        sums = _sums(together, chain)
        if sums is not None and sums.along and sums.down and threads > 1:
            start = together if crossed is draft else crossed
            crossed = _in_wavefront(start, sums, sizes, threads) or crossed
    return crossed


def _joined(draft: Draft, first: Loop, second: Loop) -> Draft | None:
    """Two neighbours as one loop nest if both sum up the same matrix, each in its own way."""
    one, other = (_sums(draft, next(iter(chains(loop)))) for loop in (first, second))
    if one is None or other is None or one.matrix != other.matrix or one.along == other.along:
        return None
    ordered = _ordered(draft, one)
    ordered = ordered and _ordered(ordered, other)
    return ordered and ordered.then(Fuse(one.rows, other.rows), Fuse(one.columns, other.columns))


def _in_wavefront(draft: Draft, sums: Sums, sizes: Mapping[str, int], threads: int) -> Draft | None:
    ordered = _ordered(draft, sums)
    piece = _piece(draft, sums, sizes, threads)
    tiled = ordered and ordered.then(Tile(((sums.rows, BLOCK), (sums.columns, piece))))
    if ordered is None or tiled is None:
        return None
    rows, columns = tiled.new_loops(ordered)
    return tiled.then(UnrollAndJam(sums.rows, ROWS), Wavefront(rows, columns))


def _blocked(draft: Draft, sizes: Mapping[str, int], threads: int) -> Draft:
    """With the parts of a loop's body apart for each block of rows, so that a block is in the cache after the first."""
    blocked = draft
    for loop in tuple(loops(draft.tree)):
        if isinstance(loop.body, Sequence) and not loop.is_parallel and draft.is_parallel(loop.name):
            blocked = _in_blocks(blocked, loop.name, sizes, threads) or blocked
    return blocked


def _in_blocks(draft: Draft, loop: str, sizes: Mapping[str, int], threads: int) -> Draft | None:
    blocks = draft.then(Tile(((loop, ROWS),)), Distribute(loop))
    if blocks is None:
        return None
    block = blocks.new_loops(draft)[0]
    jammed = blocks
    for chain in tuple(chains(loop_named(blocks.tree, block).body)):
        sums = _sums(blocks, chain)
        if sums is not None and sums.along and not sums.down and sums.rows == chain[0].name:
            jammed = jammed.then(UnrollAndJam(sums.rows, ROWS)) or jammed
    return None if jammed is blocks else _threaded(jammed, block, sizes, threads)


def _sums(draft: Draft, chain: tuple[Loop, ...]) -> Sums | None:
    if len(chain) != 2 or any(loops(chain[-1].body)) or any(loop.is_parallel or loop.unroll != 1 for loop in chain):
        return None
    outer, inner = (loop.name for loop in chain)
    inside = tuple(leaves(chain[-1]))
    for rows, columns in ((outer, inner), (inner, outer)):
        found = [each for leaf in inside if (each := _sum(draft, leaf, rows, columns))]
        if len(found) == len(inside) and len({each.matrix for each in found}) == 1:
            kinds = {each.along for each in found}
            return Sums(rows, columns, found[0].matrix, True in kinds, False in kinds)
    return None


def _sum(draft: Draft, leaf: Leaf, rows: str, columns: str) -> Sums | None:
    """What a statement sums up, if these loops walk a matrix like that."""
    accesses = draft.model.nest.statement(leaf.statement).accesses
    jumps = list(
        zip(accesses, strides(draft.model.nest, leaf, rows), strides(draft.model.nest, leaf, columns), strict=False)
    )
    written = [(down, across) for access, down, across in jumps if access.is_write]
    matrices = [access.array for access, down, across in jumps if not access.is_write and down > 1 and across == 1]
    targets = [replace(access, is_write=False) for access in accesses if access.is_write]
    if targets[0] not in accesses:
        return None
    if len(written) != 1 or not matrices or (written[0][0] == 0) == (written[0][1] == 0):
        return None
    along = written[0][1] == 0
    return Sums(rows, columns, matrices[0], along, not along)


def _ordered(draft: Draft, sums: Sums) -> Draft | None:
    """With the loop over columns inside."""
    chain = next(chain for chain in chains(draft.tree) if sums.rows in (loop.name for loop in chain))
    return draft if chain[0].name == sums.rows else draft.then(Reorder((sums.rows, sums.columns)))


def _piece(draft: Draft, sums: Sums, sizes: Mapping[str, int], threads: int) -> int:
    """Columns of each thread."""
    width = sizes.get(draft.model.nest.array(sums.matrix).shape[-1], max(sizes.values(), default=1))
    return max(-(-width // (threads * PIECE)), 1) * PIECE


def _threaded(draft: Draft, loop: str, sizes: Mapping[str, int], threads: int) -> Draft:
    """With the loop on threads, if that pays: it may be started often."""
    threaded = draft.with_threads_on(loop) if threads > 1 and draft.is_parallel(loop) else None
    if threaded is None:
        return draft
    now, then = (tree_price(each.model, each.tree, sizes, each.is_parallel, threads) for each in (draft, threaded))
    return threaded if then < now else draft
