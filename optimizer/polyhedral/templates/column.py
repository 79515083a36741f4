"""Templates for loops that finish one column after the other, each with the help of all before it (Gram-Schmidt)."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import loops

COLUMNS = 64
"""Of a block that stays in the second level of cache, in a matrix of a few thousand rows."""


def in_columns(draft: Draft) -> Iterator[Draft]:
    """Two loops around several parts, in blocks, where those of the inner loop wait for the outer loop's block alone.

    To the right of that block they can run on threads, and each is in the cache for all of the block's columns.
    """
    for nested in tuple(chains(draft.tree)):
        names = [loop.name for loop in nested]
        if len(names) != 2 or not any(loops(nested[-1].body)) or any(draft.is_parallel(name) for name in names):
            continue
        tiled = draft.then(Tile(tuple((name, COLUMNS) for name in names)))
        if tiled is None:
            continue
        block, columns = tiled.new_loops(draft)
        halved = tiled.then(Split(columns, f"{block} + 1"))
        if halved is not None and halved.is_parallel(halved.new_loops(tiled)[0]):
            yield halved
