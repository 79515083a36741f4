"""Templates for stencils that sweep over arrays again and again: tiles of several sweeps, which stay in the cache.

The innermost loop stays long, because that is what keeps the processor's units busy: as vectors; or, where each of its
iterations waits for the one before, with several rows at once, each a little behind the row above it. A recurrence in
the plane (dynamic programming) has one sweep, and large tiles of it in wavefronts.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.polyhedral.steps.skew import Skew
from optimizer.polyhedral.steps.structure import chains, tile_name
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Leaf, Loop, loops

VECTOR_TILES = {2: (16, 32), 3: (4, 8, 4)}
"""Sizes for the loops around rows of vectors, from the sweeps in: what a tile touches fits the second-level cache."""
ROW_TILES = (8, 32)
"""Sizes for the sweeps and the rows of a recurrence."""
ROWS = 8
"""How many rows run at once: their divisions and sums are in flight together."""
PLANE_TILES = (128, 512)
"""Sizes for a recurrence in the plane: what a tile reads from above fits the first-level cache."""
LAGS = (0, 1, 2)
"""By how many iterations each row may have to be behind the row above it."""


def time_tilings(draft: Draft, threads: int) -> Iterator[Draft]:
    """The nest in tiles of several sweeps, on threads in wavefronts; nothing where that is not legal or no stencil."""
    nested, *others = chains(draft.tree)
    if draft.tree is not nested[0] or draft.is_parallel(nested[0].name):
        return
    names = [loop.name for loop in nested]
    innermost = [loop for loop in loops(nested[-1]) if not any(loops(loop.body))]
    if others and all(innermost_chain[-1] in innermost and len(innermost_chain) == 1 for innermost_chain in others):
        yield from _in_vectors(draft, names, innermost, threads)
    elif not others and len(names) > len(ROW_TILES) and isinstance(nested[-1].body, Leaf):
        yield from _in_rows(draft, names, threads)


def plane_tilings(draft: Draft, threads: int) -> Iterator[Draft]:
    """Every nest of two loops, neither of which can run on threads, in wavefronts of tiles with long rows."""
    tiled = draft
    for nested in tuple(chains(draft.tree)) if threads > 1 else ():
        names = [loop.name for loop in nested]
        is_plane = len(names) == len(PLANE_TILES) and not any(loops(nested[-1].body))
        if is_plane and not any(draft.is_parallel(name) for name in names):
            tiled = _tiled(tiled, names, PLANE_TILES, threads) or tiled
    if tiled is not draft:
        yield tiled


def _in_vectors(draft: Draft, around: list[str], innermost: list[Loop], threads: int) -> Iterator[Draft]:
    sizes = VECTOR_TILES.get(len(around))
    vectors = draft.then(*(Vectorize(loop.name) for loop in innermost))
    if sizes is not None and vectors is not None:
        tiled = _tiled(vectors, around, sizes, threads)
        if tiled is not None:
            yield tiled


def _in_rows(draft: Draft, names: list[str], threads: int) -> Iterator[Draft]:
    *_, rows, innermost = names
    if draft.is_parallel(innermost):
        return
    for lag in LAGS:
        lagging = draft.then(Skew(innermost, by=rows, factor=lag)) if lag else draft
        jammed = None if lagging is None else lagging.then(UnrollAndJam(rows, ROWS))
        if lagging is not None and jammed is not None and jammed.is_parallel(rows):
            tiled = _tiled(lagging, names[: len(ROW_TILES)], ROW_TILES, threads)
            result = None if tiled is None else tiled.then(UnrollAndJam(rows, ROWS))
            if result is not None:
                yield result
            return


def _tiled(draft: Draft, names: list[str], sizes: tuple[int, ...], threads: int) -> Draft | None:
    tile = Tile(tuple(zip(names, sizes, strict=True)))
    sweeps, outermost = (tile_name(name) for name in names[:2])
    return draft.then(tile, Wavefront(sweeps, outermost)) if threads > 1 else draft.then(tile)
