"""Templates with reductions in any order, for where floating-point numbers may be combined in another order.

    for i: (for j: t[i] += A[i, j] * x[j]; for j: y[j] += A[i, j] * t[i])      each thread has its own y
    for i: for j: t[i] += A[i, j] * x[j]                                       vectors of partial sums

The first reads the matrix once for both, without anything that threads wait for.
"""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.polyhedral.locality import linear_coefficients
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.structure import loop_named
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Loop, Node, Sequence, leaves, loops

ROWS = 8
"""In a block, of which the parts of a loop run one after the other: it stays in the cache, and rows share what is
loaded for all of them."""
NUMBERS = 4096
"""In a block of a loop without loops inside: many times the vectors of partial results that it begins and ends with."""


def shared_reductions(draft: Draft, threads: int, *, several_parts: bool) -> Iterator[Draft]:
    """The draft with partial results for each thread, in blocks of rows and plain; none where the order of reductions
    is not free, or threads need none.

    `several_parts`: only in loops of several parts, which may use the same rows. Those of one part often have another
    loop that needs no partial results.
    """
    if threads == 1 or not any(Reduce.options(draft.model.nest, draft.tree)):
        return
    shared, jammed = draft, draft
    for part in _parts(draft.tree):
        if isinstance(part, Loop) and not draft.is_parallel(part.name) and _has_parts(part) >= several_parts:
            shared = _on_threads(shared, part.name, threads) or shared
            jammed = _in_rows(jammed, part.name, threads) or jammed
    yield from (found for found in (jammed, shared) if found is not draft)


def vector_reductions(draft: Draft) -> Iterator[Draft]:
    """The draft with vectors of partial results in each innermost loop that reduces and walks along memory."""
    vectors = draft
    for loop in tuple(loops(draft.tree)):
        if not any(loops(loop.body)) and not loop.is_parallel and _walks(draft, loop):
            vectors = vectors.then(Reduce(loop.name), Vectorize(loop.name)) or vectors
    if vectors is not draft:
        yield vectors


def _parts(tree: Node) -> tuple[Node, ...]:
    return tree.parts if isinstance(tree, Sequence) else (tree,)


def _has_parts(loop: Loop) -> bool:
    return isinstance(loop.body, Sequence)


def _on_threads(draft: Draft, loop: str, threads: int) -> Draft | None:
    """With blocks of the iterations of a loop on threads, each of which has its own copy of what they reduce."""
    rows = ROWS if any(loops(loop_named(draft.tree, loop).body)) else NUMBERS
    tiled = draft.then(Tile(((loop, rows),)))
    if tiled is None:
        return None
    (blocks,) = tiled.new_loops(draft)
    return tiled.then(Reduce(blocks, threads), Parallel(blocks))


def _in_rows(draft: Draft, loop: str, threads: int) -> Draft | None:
    """The same, with the parts of the loop apart in each block, several rows at once; None without loops inside it."""
    if not any(loops(loop_named(draft.tree, loop).body)):
        return None
    shared = _on_threads(draft, loop, threads)
    apart = shared and (shared.then(Distribute(loop)) or shared)
    if shared is None or apart is None:
        return None
    for name in (loop, *apart.new_loops(shared)):
        apart = apart.then(UnrollAndJam(name, ROWS)) or apart
    return apart


def _walks(draft: Draft, loop: Loop) -> bool:
    """Whether each element that it accesses is the same or the next one in memory in its next iteration."""
    nest = draft.model.nest
    for leaf in leaves(loop_named(draft.tree, loop.name)):
        statement, iterator = nest.statement(leaf.statement), leaf.values[loop.name]
        for access in statement.accesses:
            steps = [linear_coefficients(text, statement.iterators, nest.parameters) for text in access.subscripts]
            moves = [None if step is None else step.get(iterator) for step in steps]
            if any(move != 0 for move in moves[:-1]) or any(move not in (0, 1) for move in moves[-1:]):
                return False
    return True
