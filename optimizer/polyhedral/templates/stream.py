"""Templates that write large arrays past the caches, which would load each line before it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from optimizer.polyhedral.locality import strides
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.stream import Stream
from optimizer.polyhedral.steps.structure import chains, tile_name
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Loop, leaves, loops

LEAST_BYTES = 2**25
"""Smaller arrays may stay in a last-level cache, of which a process has a part, however large all of it is."""
PIECE = 512
"""Columns of a piece: long enough for whole lines, and few rows of it fit the first-level cache."""


def in_pieces(draft: Draft) -> Draft | None:
    """The draft with long pieces of rows, all rows of one before the next, wherever only the innermost loop of a nest
    can run on threads: statements that read what others have written a few rows before stay together."""
    pieces = draft
    for nested in tuple(chains(draft.tree)):
        names = [loop.name for loop in nested]
        if len(names) < 2 or any(loops(nested[-1].body)) or draft.is_parallel(names[0]):
            continue
        if draft.is_parallel(names[-1]):
            order = (tile_name(names[-1]), *names)
            pieces = pieces.then(Tile(((names[-1], PIECE),)), Reorder(order)) or pieces
    return None if pieces is draft else pieces


def streamed(draft: Draft, arrays: Collection[str]) -> Iterator[Draft]:
    """The draft with rows of these arrays written past the caches, by vectors; nothing where it writes no such rows."""
    vectors = draft
    for loop in loops(draft.tree):
        if loop.vector == 1 and not loop.is_parallel and _writes_rows(draft, loop, arrays):
            vectors = vectors.then(Vectorize(loop.name)) or vectors
    result = vectors
    for array in arrays:
        result = result.then(Stream(array)) or result
    if result is not vectors:
        yield result


def _writes_rows(draft: Draft, loop: Loop, arrays: Collection[str]) -> bool:
    nest = draft.model.nest
    for leaf in leaves(loop) if not any(loops(loop.body)) else ():
        accesses = nest.statement(leaf.statement).accesses
        for access, jump in zip(accesses, strides(nest, leaf, loop.name), strict=False):
            if access.is_write and access.array in arrays and jump == 1.0:
                return True
    return False
