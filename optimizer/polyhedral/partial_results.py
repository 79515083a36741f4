"""Loops marked by `reduce`: which reductions get partial results there, and who must not see them.

Where a loop runs iterations at once, on threads or as lanes, a reduction whose order is free has partial results that
are combined with its element when the loop is done. Until then nothing else may touch the element.
"""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl

from optimizer.polyhedral.model import Model
from optimizer.polyhedral.order import TimedLeaf, relation_text
from optimizer.polyhedral.reductions import access_of, free_reduction
from optimizer.polyhedral.tree import Loop

Relations = Mapping[str, isl.Map]
"""For statements in a loop, from their iterations to (some entries of) timestamps."""


def partial_statements(model: Model, timed: tuple[TimedLeaf, ...], loop: Loop) -> frozenset[str]:
    """The statements in a marked loop that have partial results if its iterations run at once.

    Of threads: those of which iterations of the loop share an element. Of lanes: all whose element the loop does not
    move.
    """
    if loop.partials == 1:
        return frozenset()
    if loop.vector != 1:
        return _still(model, timed, loop.name)
    found: set[str] = set()
    for first, second in model.free_pairs:
        if shared_in(model, timed, loop.name, first, second) is not None:
            found |= {first, second}
    return frozenset(found)


def shared_in(model: Model, timed: tuple[TimedLeaf, ...], loop: str, first: str, second: str) -> isl.Map | None:
    """The pairs of free order between different iterations of a loop within one of all loops around; None if none."""
    free = model.free_pairs.get((first, second))
    inside = tuple(leaf for leaf in timed if loop in leaf.levels)
    if free is None or not {first, second} <= {leaf.leaf.statement for leaf in inside}:
        return None
    depth = inside[0].levels.index(loop)
    outer, own = (_times(model, inside, slice(0, end)) for end in (depth, depth + 1))
    both = isl.UnionMap.from_map(free).intersect(outer.apply_range(outer.reverse()))
    both = both.subtract(own.apply_range(own.reverse()))
    return None if both.is_empty() else isl.Map.from_union_map(both)


def _still(model: Model, timed: tuple[TimedLeaf, ...], loop: str) -> frozenset[str]:
    inside = tuple(leaf for leaf in timed if loop in leaf.levels)
    depth = inside[0].levels.index(loop)
    found: set[str] = set()
    for name in {leaf.leaf.statement for leaf in inside}:
        if free_reduction(model.nest, model.nest.statement(name)) is not None:
            elsewhen = tuple(_without(leaf, depth) for leaf in inside if leaf.leaf.statement == name)
            if _times(model, elsewhen, slice(None)).reverse().apply_range(_elements(model, name)).is_single_valued():
                found.add(name)
    return frozenset(found)


def _without(leaf: TimedLeaf, depth: int) -> TimedLeaf:
    """The leaf as if the loop of that depth were not there."""
    return TimedLeaf(
        leaf.leaf, (*leaf.time[:depth], *leaf.time[depth + 1 :]), (*leaf.levels[:depth], *leaf.levels[depth + 1 :])
    )


def _times(model: Model, leaves: tuple[TimedLeaf, ...], entries: slice) -> isl.UnionMap:
    return isl.UnionMap(relation_text(model.nest, leaves, entries)).intersect_domain(model.domain)


def seen_too_early(model: Model, timed: tuple[TimedLeaf, ...], loop: Loop) -> isl.UnionMap:
    """The conflicts, within one iteration of the loops around, of a partial result with anything that is not combined
    with it in any order."""
    partial = partial_statements(model, timed, loop)
    found = isl.UnionMap("{ }")
    if not partial:
        return found
    inside = tuple(leaf for leaf in timed if loop.name in leaf.levels)
    outer = _times(model, inside, slice(0, inside[0].levels.index(loop.name)))
    together = outer.apply_range(outer.reverse())
    elements = isl.UnionMap("{ }")
    for name in partial:
        elements = elements.union(_elements(model, name))
    touched = model.reads.union(model.writes)
    uses = elements.apply_range(touched.reverse()).union(touched.apply_range(elements.reverse()))
    together = together.intersect(uses)
    for pairs in model.conflict_maps:
        first, second = str(pairs.get_tuple_name(isl.dim_type.in_)), str(pairs.get_tuple_name(isl.dim_type.out))
        if partial & {first, second}:
            seen = isl.UnionMap.from_map(pairs).intersect(together)
            if {first, second} <= partial and (first, second) in model.free_pairs:
                seen = seen.subtract(isl.UnionMap.from_map(model.free_pairs[first, second]))
            found = found.union(seen)
    return found


def _elements(model: Model, name: str) -> isl.UnionMap:
    """What each iteration of a reduction combines something with."""
    statement = model.nest.statement(name)
    reduction = free_reduction(model.nest, statement)
    assert reduction is not None, "only a reduction has partial results"
    return model.access_relation(statement, access_of(reduction))
