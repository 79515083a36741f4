"""Templates for recurrences of which many run beside each other: the lanes of a vector each follow one of them.

    for i: for j: p[i, j] = a / (p[i, j - 1] + b)   ->   for i_t: for j: for 16 rows i at once: p[i, j] = ...

An iteration waits for the one before it, as long as an addition or a division takes; it does not wait for other rows.
The parts of one loop run one after the other for each block of rows, so that what one leaves for the next is in the
cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.polyhedral.locality import direction, strides
from optimizer.polyhedral.nest import Access, Role
from optimizer.polyhedral.reductions import reduction_of
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.tree import Loop, Node, Sequence, leaves, loops

BLOCK = 16
"""Rows beside each other: two vectors, so that one computes while the other waits; the lines of the cache that they
touch stay in its first level until they are used up."""
JAMMED = 8
"""Rows beside each other where statements have no vector form."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Two loops, one directly in the other: one steps through recurrences, the other goes from one to the next."""

    lanes: str
    steps: str
    jumps: bool
    """Whether neighbouring lanes are apart in memory."""
    is_inner: bool
    """Whether the loop over lanes is the inner one: without jumps, compilers make vectors of it by themselves."""


def side_by_side(draft: Draft) -> Iterator[Draft]:
    """The draft with neighbouring recurrences in the lanes of vectors; none where compilers do that by themselves, or
    there is no recurrence."""
    blocked, whole_blocks = _in_blocks(draft)
    every = [found for nested in chains(blocked.tree) if (found := _beside(blocked, nested))]
    if all(each.is_inner and not each.jumps for each in every):
        return
    beside = blocked
    for each in every:
        beside = _in_lanes(beside, each, each.lanes in whole_blocks) or beside
    if beside is not blocked:
        yield beside


def _in_blocks(draft: Draft) -> tuple[Draft, frozenset[str]]:
    """With the parts of loops around recurrences one after the other for each block of rows, and the loops over the
    rows of such blocks."""
    blocked, rows = draft, frozenset[str]()
    for loop in tuple(loops(draft.tree)):
        inside = loop.body.parts if isinstance(loop.body, Sequence) else ()
        if not draft.is_parallel(loop.name) or not any(_recurs_along_itself(draft, part) for part in inside):
            continue
        tiled = blocked.then(Tile(((loop.name, BLOCK),)))
        apart = tiled and tiled.then(Distribute(loop.name))
        if tiled is not None and apart is not None:
            rows |= {loop.name, *apart.new_loops(tiled)}
            blocked = apart
    return blocked, rows


def _recurs_along_itself(draft: Draft, part: Node) -> bool:
    return isinstance(part, Loop) and not draft.is_parallel(part.name) and _recurs(draft, part, part.name)


def _beside(draft: Draft, nested: tuple[Loop, ...]) -> Beside | None:
    """What the two innermost loops of a chain are, if one carries recurrences and the other nothing."""
    if len(nested) < 2 or any(loops(nested[-1].body)):
        return None
    outer, inner = nested[-2:]
    if any(loop.is_parallel or loop.vector != 1 or loop.unroll != 1 for loop in (outer, inner)):
        return None
    for lanes, steps in ((outer, inner), (inner, outer)):
        is_free = draft.is_parallel(lanes.name) and not draft.is_parallel(steps.name)
        if is_free and _recurs(draft, inner, steps.name):
            return Beside(lanes.name, steps.name, _jumps(draft, inner, lanes.name), lanes is inner)
    return None


def _recurs(draft: Draft, innermost: Loop, steps: str) -> bool:
    """Whether the loop computes other elements in each step, from what it left in another step: elements of the same
    array, or a scalar. (A sum that one element holds is none.)"""
    if any(loops(innermost.body)):
        return False
    nest = draft.model.nest
    inside = [(leaf, nest.statement(leaf.statement)) for leaf in leaves(innermost)]
    reads = [access for _, statement in inside for access in statement.accesses if not access.is_write]
    writes = [
        (access, jump)
        for leaf, statement in inside
        for access, jump in zip(statement.accesses, strides(nest, leaf, steps), strict=False)
        if access.is_write and reduction_of(nest, statement) is None
    ]
    scalars = {a.array for a, jump in writes if jump == 0 and nest.array(a.array).role is Role.SCALAR}
    keeps = any(read.array in scalars for read in reads)
    moves = [direction(leaf, statement, steps, nest.parameters) or {} for leaf, statement in inside]
    along = {name for moved in moves for name, step in moved.items() if step}
    return any(
        jump > 0 and (keeps or any(_is_left_elsewhere(write, read, along) for read in reads)) for write, jump in writes
    )


def _is_left_elsewhere(write: Access, read: Access, iterators: set[str]) -> bool:
    """Whether an element of the same array is read that is a fixed number of steps away."""
    return read.array == write.array and any(
        one != other and _names(one) == _names(other) and _names(one) & iterators
        for one, other in zip(write.subscripts, read.subscripts, strict=True)
    )


def _names(expression: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", expression))


def _jumps(draft: Draft, innermost: Loop, lanes: str) -> bool:
    return any(jump > 1 for leaf in leaves(innermost) for jump in strides(draft.model.nest, leaf, lanes))


def _in_lanes(draft: Draft, beside: Beside, is_block: bool) -> Draft | None:
    """With a block of lanes innermost, as vectors or side by side; `is_block`: whether the loop over them is one."""
    if beside.is_inner and not beside.jumps:
        return draft.then(Vectorize(beside.lanes))
    order = (beside.steps, beside.lanes)
    blocked = draft if is_block else draft.then(Tile(((beside.lanes, BLOCK),)))
    if blocked is None:
        return None
    if not is_block:
        order = (*blocked.new_loops(draft), *order)
    ordered = blocked if is_block and beside.is_inner else blocked.then(Reorder(order))
    vectors = ordered and ordered.then(Vectorize(beside.lanes))
    return vectors or (None if beside.is_inner else draft.then(UnrollAndJam(beside.lanes, JAMMED)))
