"""Templates that run neighbouring loops as one: a chain of statements over whole arrays becomes one pass over them.

    for i: d[i] = a[i] - b[i]; for i: e[i] = d[i] * d[i]           ->  for i: (d = a[i] - b[i]; e[i] = d * d)
    for i: for j: s[i] += X[i, j]; for i: for j: Y[i, j] = X[i, j] / s[i]
                                                                   ->  for i: (for j: s[i] += ...; for j: Y[i, j] = ...)

What one part leaves for the next is then in a register, or in the cache as a row. Fusing may cost no threads: a loop
whose iterations were independent stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from optimizer.polyhedral.footprint import range_of
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.reorder_statements import ReorderStatements
from optimizer.polyhedral.steps.structure import chains, loop_named, part_name
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.traffic import CACHE, moved_bytes
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops, show

NEAR = 4
"""By how many iterations loops may begin and end apart: slices leave out a few at the borders."""
COLUMNS = (64, 32, 16, 8)
"""Of a block: lines of the cache, the more the better for fetching ahead, as long as the block fits the cache."""
MOST_PARTS = 24
"""Each pair of parts is judged."""


def one_pass_orders(drafts: Iterable[Draft], sizes: Mapping[str, int]) -> Iterator[tuple[Draft, float]]:
    """What comes of fusing the loops of these drafts, the first of them the untouched nest, along rows and along
    columns, each with the share of that one's bytes that it moves: only where that is less."""
    seen: set[str] = set()
    whole: int | None = None
    for draft in drafts:
        for fewer in (fused(draft, sizes), *in_column_blocks(draft, sizes)):
            if fewer is draft or show(fewer.tree) in seen:
                continue
            seen.add(show(fewer.tree))
            whole = whole or moved_bytes(draft.model, draft.model.nest.tree, sizes)
            moved = moved_bytes(fewer.model, fewer.tree, sizes)
            if whole and moved and moved < whole:
                yield fewer, moved / whole


def fused(draft: Draft, sizes: Mapping[str, int]) -> Draft:
    """All loops of the draft fused that may be, outer before inner."""
    return _Fusing(sizes).fused(draft, None)


def in_column_blocks(draft: Draft, sizes: Mapping[str, int]) -> Iterator[Draft]:
    """Statements about columns in one loop over blocks of columns, each of which is in the cache after its first part.

    for j: for i: s[j] += X[i, j]; for i: for j: X[i, j] -= s[j]   ->   for j_t: (for i: for j: ...; for i: for j: ...)
    """
    outside = draft
    for nested in tuple(chains(draft.tree)):
        names = [loop.name for loop in nested]
        if len(names) == 2:
            outside = outside.then(Reorder((names[1], names[0]))) or outside
    together = fused(outside, sizes) if outside is not draft else draft
    blocked = together
    for loop in _parts(together.tree):
        if isinstance(loop, Loop) and isinstance(loop.body, Sequence) and together.is_parallel(loop.name):
            blocked = _in_blocks(blocked, loop, sizes) or blocked
    if blocked is not together:
        yield blocked


def _in_blocks(draft: Draft, loop: Loop, sizes: Mapping[str, int]) -> Draft | None:
    ranges = [found for inner in loops(loop.body) if (found := _range(draft, inner, sizes))]
    rows = max((high - low + 1 for low, high in ranges), default=1)
    columns = next((count for count in COLUMNS if 8 * count * rows <= CACHE), COLUMNS[-1])
    tiled = draft.then(Tile(((loop.name, columns),)))
    apart = tiled and tiled.then(Distribute(loop.name))
    if apart is None or tiled is None:
        return None
    (block,) = tiled.new_loops(draft)
    walks = [nested for nested in chains(loop_named(apart.tree, block).body) if len(nested) == 2]
    for columns_loop, rows_loop in walks:
        apart = apart.then(Reorder((rows_loop.name, columns_loop.name))) or apart
    return apart if len(walks) > 1 else None


@dataclass(frozen=True, slots=True)
class _Fusing:
    sizes: Mapping[str, int]

    def fused(self, draft: Draft, inside: str | None) -> Draft:
        """With what is directly in a loop, or outermost, fused, and then what is in that."""
        draft = _statements_first(draft, inside)
        draft = self._joined(draft, inside)
        for part in _directly_in(draft, inside):
            if isinstance(part, Loop):
                draft = self.fused(draft, part.name)
        return draft

    def _joined(self, draft: Draft, inside: str | None) -> Draft:
        """Each loop joins the first one before it that it can."""
        place = 1
        while place < len(parts := _directly_in(draft, inside)) and len(parts) <= MOST_PARTS:
            found = None
            if isinstance(second := parts[place], Loop):
                firsts = (part for part in parts[:place] if isinstance(part, Loop))
                found = next(filter(None, (self._together(draft, parts, first, second) for first in firsts)), None)
            place += found is None
            draft = found or draft
        return draft

    def _together(self, draft: Draft, parts: tuple[Node, ...], first: Loop, second: Loop) -> Draft | None:
        if not self._are_alike(draft, first, second):
            return None
        names = [part_name(part) for part in parts]
        start, end = names.index(first.name), names.index(second.name)
        moved = draft
        if end > start + 1:
            between = names[start + 1 : end]
            moved = draft.then(ReorderStatements((second.name, *between)))
        joined = moved and moved.then(Fuse(first.name, second.name))
        if joined is None:
            return None
        keeps = _is_shareable(joined, first.name) or not (
            _is_shareable(draft, first.name) and _is_shareable(draft, second.name)
        )
        return joined if keeps else None

    def _are_alike(self, draft: Draft, first: Loop, second: Loop) -> bool:
        """Whether two loops run over nearly the same values; over the same ones where no loop is in them, because the
        code would ask in each iteration what is to be done."""
        one, other = (_range(draft, loop, self.sizes) for loop in (first, second))
        if one is None or other is None:
            return False
        short = min(one[1] - one[0], other[1] - other[0])
        apart = max(abs(one[0] - other[0]), abs(one[1] - other[1]))
        are_outer = any(loops(first.body)) and any(loops(second.body))
        return apart == 0 or (are_outer and apart <= NEAR and short > 4 * NEAR)


def _is_shareable(draft: Draft, loop: str) -> bool:
    """Whether threads can share its iterations, with partial results if need be."""
    return draft.is_parallel(loop) or draft.then(Reduce(loop, 2), Parallel(loop)) is not None


def _statements_first(draft: Draft, inside: str | None) -> Draft:
    """Statements that are in no loop here, which keep loops apart, before as many of the loops as is legal."""
    for name in [part_name(part) for part in _directly_in(draft, inside) if isinstance(part, Leaf)]:
        parts = _directly_in(draft, inside)
        place = [part_name(part) for part in parts].index(name)
        if sum(leaf.statement == name for leaf in leaves(draft.tree)) == 1:
            starts = (k for k, part in enumerate(parts[:place]) if isinstance(part, Loop))
            orders = (ReorderStatements((name, *map(part_name, parts[start:place]))) for start in starts)
            draft = next(filter(None, map(draft.then, orders)), draft)
    return draft


def _directly_in(draft: Draft, loop: str | None) -> tuple[Node, ...]:
    if loop is None:
        return _parts(draft.tree)
    found = find_loop(draft.tree, loop)
    return () if found is None else _parts(found.body)


def _parts(tree: Node) -> tuple[Node, ...]:
    return tree.parts if isinstance(tree, Sequence) else (tree,)


def _range(draft: Draft, loop: Loop, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and the greatest value of a loop; None where it has none."""
    ranges = [found for leaf in leaves(loop) if (found := range_of(draft.model, leaf, loop.name, sizes))]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
