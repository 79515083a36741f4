"""What a person wants to know of a nest before scheduling it: its dependences, parallel loops and permutable bands.

All of it holds for all sizes at once. Dependences are all conflicting pairs of accesses in the original order, as
legality sees them, not only the last writer of each read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import islpy as isl

from optimizer.polyhedral.legality import parallel_loops
from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.order import TimedLeaf, relation_text, timed_leaves
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.tree import Loop, Node, loops
from optimizer.polyhedral.witness import Kind

MOST_DISTANCES = 12
"""Of one dependence: stencils have up to nine."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Some iteration of `source` must run before some iteration of `sink`, because both touch one element."""

    array: str
    kind: Kind
    source: str
    sink: str
    carried_by: tuple[str, ...]
    """The loops whose different iterations it connects, outermost first."""
    is_within_iteration: bool
    """Whether it also connects statements within one iteration of all loops around both."""
    loops: tuple[str, ...] = ()
    """What `distances` are along, outermost first: the loops around both, then `i/i_2` for two loops of the same depth
    that are each around only one of them."""
    distances: tuple[tuple[int, ...], ...] | None = None
    """By how much the sink's values of `loops` exceed the source's, for each pair with no write of the element between
    them: from these all others follow. None where they differ with the sizes, or are more than `MOST_DISTANCES`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "array": self.array,
            "kind": self.kind.value,
            "source": self.source,
            "sink": self.sink,
            "carried_by": list(self.carried_by),
            "within_iteration": self.is_within_iteration,
            "loops": list(self.loops),
            "distances": None if self.distances is None else [list(distance) for distance in self.distances],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The analysis of a nest under one schedule tree."""

    dependences: tuple[Dependence, ...]
    parallel: tuple[str, ...]
    """The loops that could run parallel as they stand, each by itself; in the order of the tree."""
    permutable: tuple[tuple[str, ...], ...]
    """Bands of two or more perfectly nested loops that can be reordered and tiled freely."""


def explain(model: Model, tree: Node) -> Explanation:
    """Analyse a (legal) schedule tree of a nest."""
    model = model_for(model, tree)
    parallel = parallel_loops(model, tree)
    return Explanation(
        dependences=tuple(dependences(model, tree)),
        parallel=tuple(loop.name for loop in loops(tree) if loop.name in parallel),
        permutable=tuple(permutable_bands(model, tree)),
    )


def dependences(model: Model, tree: Node) -> Iterator[Dependence]:
    """Every (array, kind, source, sink) that occurs, with the loops of the tree that carry it.

    What isl cannot decide within its operation limit is reported as carried by every common loop.
    """
    model, timed = model_for(model, tree), timed_leaves(tree)
    before = model.original_order.lex_lt_union_map(model.original_order)
    for array in (array.name for array in model.nest.arrays):
        touching = {
            Kind.RAW: _pairs(model, array, first_writes=True, second_writes=False),
            Kind.WAW: _pairs(model, array, first_writes=True, second_writes=True),
            Kind.WAR: _pairs(model, array, first_writes=False, second_writes=True),
        }
        for kind, candidates in touching.items():
            try:
                with operation_limit():
                    pairs = candidates.intersect(before).coalesce()
            except isl.Error:
                pairs = candidates
            nearest = _nearest(model, array, kind)
            for source in model.domains:
                for sink in model.domains:
                    between = pairs.intersect_domain(_domain(model, source)).intersect_range(_domain(model, sink))
                    if not between.is_empty():
                        ends = tuple(leaf for leaf in timed if leaf.leaf.statement in (source, sink))
                        common = tuple(
                            level for level in ends[0].levels if level and all(level in leaf.levels for leaf in ends)
                        )
                        carriers, is_within = _carriers(model, ends, common, between)
                        along, distances = _distances(model, ends, common, between.intersect(nearest))
                        yield Dependence(array, kind, source, sink, carriers, is_within, along, distances)


def permutable_bands(model: Model, tree: Node) -> Iterator[tuple[str, ...]]:
    """Maximal runs of perfectly nested loops in which no dependence goes backwards along any of them."""
    model, timed = model_for(model, tree), timed_leaves(tree)
    for chain in _perfect_chains(tree):
        band: list[str] = []
        for loop in chain:
            if band and not _never_goes_back(model, timed, outermost=band[0], loop=loop):
                if len(band) > 1:
                    yield tuple(band)
                band = []
            band.append(loop)
        if len(band) > 1:
            yield tuple(band)


def _pairs(model: Model, array: str, *, first_writes: bool, second_writes: bool) -> isl.UnionMap:
    """Pairs of iterations that touch one element of the array, in any order."""
    first = _touches(model, array, is_write=first_writes)
    second = _touches(model, array, is_write=second_writes)
    return first.apply_range(second.reverse())


def _touches(model: Model, array: str, *, is_write: bool) -> isl.UnionMap:
    relation = isl.UnionMap(f"[{', '.join(model.nest.parameters)}] -> {{ }}")
    for statement in model.nest.statements:
        for access in statement.accesses:
            if access.array == array and access.is_write is is_write:
                relation = relation.union(model.access_relation(statement, access))
    return relation


def _domain(model: Model, statement: str) -> isl.UnionSet:
    return isl.UnionSet.from_set(model.domains[statement])


def _carriers(
    model: Model, ends: tuple[TimedLeaf, ...], common: tuple[str, ...], pairs: isl.UnionMap
) -> tuple[tuple[str, ...], bool]:
    """The loops that carry some of these pairs, and whether some pair lies within one iteration of all common loops."""
    found: list[str] = []
    rest = pairs
    try:
        with operation_limit():
            for loop in common:
                value = _value_of(model, ends, loop)
                same = rest.intersect(value.apply_range(value.reverse()))
                if not rest.is_subset(same):
                    found.append(loop)
                rest = same
            return tuple(found), not rest.is_empty()
    except isl.Error:
        return common, True


def _value_of(model: Model, ends: tuple[TimedLeaf, ...], loop: str) -> isl.UnionMap:
    """From each iteration of some leaves to its value of one loop around all of them."""
    here = tuple(leaf for leaf in ends if loop in leaf.levels)
    depth = here[0].levels.index(loop)
    return isl.UnionMap(relation_text(model.nest, here, slice(depth, depth + 1))).intersect_domain(model.domain)


def _nearest(model: Model, array: str, kind: Kind) -> isl.UnionMap:
    """The pairs with no write of the element between them, as isl's dataflow finds them; empty when it gives up.

    The first write after a read is the last one before it in the reversed order.
    """
    writes = _touches(model, array, is_write=True)
    order = model.original_order if kind is not Kind.WAR else _reversed(model.original_order)
    sinks = writes if kind is Kind.WAW else _touches(model, array, is_write=False)
    access = isl.UnionAccessInfo.from_sink(sinks).set_must_source(writes).set_schedule_map(order)
    try:
        with operation_limit():
            found = access.compute_flow().get_must_dependence()
    except isl.Error:
        return isl.UnionMap("{ }")
    return found.reverse() if kind is Kind.WAR else found


def _reversed(order: isl.UnionMap) -> isl.UnionMap:
    """The order in which everything runs backwards."""
    maps = order.get_map_list()
    backwards = (isl.UnionMap.from_map(maps.get_at(k).neg()) for k in range(maps.n_map()))
    return reduce(isl.UnionMap.union, backwards)


def _distances(
    model: Model, ends: tuple[TimedLeaf, ...], common: tuple[str, ...], pairs: isl.UnionMap
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...] | None]:
    """All differences of these pairs, ascending, and the loops they are along; None when they are not few constants.

    Along the common loops and those that the two ends have besides, if that gives constants; else along the former.
    """
    shared = {loop: _value_of(model, ends, loop) for loop in common}
    for values in (shared | _side_by_side(model, ends, common), shared):
        if values and not pairs.is_empty() and (found := _constants(pairs, tuple(values.values()))):
            return tuple(values), found
    return common, None


def _side_by_side(model: Model, ends: tuple[TimedLeaf, ...], common: tuple[str, ...]) -> dict[str, isl.UnionMap]:
    """The values of the loops around only one of two leaves, each with the other's of the same depth."""
    own = [[level for level in leaf.levels if level and level not in common] for leaf in ends]
    if len(ends) != 2 or len(own[0]) != len(own[1]):
        return {}
    return {
        f"{first}/{second}": _value_of(model, ends, first).union(_value_of(model, ends, second))
        for first, second in zip(*own, strict=True)
    }


def _constants(pairs: isl.UnionMap, values: tuple[isl.UnionMap, ...]) -> tuple[tuple[int, ...], ...] | None:
    try:
        with operation_limit():
            place = reduce(isl.UnionMap.flat_range_product, values)
            rest = isl.Map.from_union_map(pairs.apply_domain(place).apply_range(place)).deltas().coalesce()
            rest = rest.project_out(isl.dim_type.param, 0, rest.dim(isl.dim_type.param))
            if not rest.is_bounded():
                return None
            found: list[tuple[int, ...]] = []
            while not rest.is_empty():
                if len(found) == MOST_DISTANCES:
                    return None
                least = rest.lexmin()
                point = least.sample_point()
                axes = range(len(values))
                found.append(tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in axes))
                rest = rest.subtract(least)
            return tuple(found)
    except isl.Error:
        return None


def _perfect_chains(node: Node) -> Iterator[tuple[str, ...]]:
    """Maximal chains of loops in which each loop's body is the next loop."""
    for loop in _chain_heads(node):
        chain = [loop.name]
        while isinstance(loop.body, Loop):
            loop = loop.body
            chain.append(loop.name)
        yield tuple(chain)
        yield from _perfect_chains(loop.body)


def _chain_heads(node: Node) -> Iterator[Loop]:
    if isinstance(node, Loop):
        yield node
        return
    for part in getattr(node, "parts", ()):
        yield from _chain_heads(part)


def _never_goes_back(model: Model, timed: tuple[TimedLeaf, ...], *, outermost: str, loop: str) -> bool:
    """Whether, within one iteration of the loops around `outermost`, each dependence ascends or stays along `loop`."""
    inside = tuple(leaf for leaf in timed if loop in leaf.levels)
    first, own = (inside[0].levels.index(name) for name in (outermost, loop))
    try:
        with operation_limit():
            outer = isl.UnionMap(relation_text(model.nest, inside, slice(0, first))).intersect_domain(model.domain)
            value = isl.UnionMap(relation_text(model.nest, inside, slice(own, own + 1))).intersect_domain(model.domain)
            same_outer = model.conflicts.intersect(outer.apply_range(outer.reverse()))
            return same_outer.intersect(value.lex_gt_union_map(value)).is_empty()
    except isl.Error:
        return False


def scalars(nest: Nest) -> dict[str, tuple[str, ...] | None]:
    """The written scalars: the loops of whose iterations each could have its own copy; None when none could."""
    found: dict[str, tuple[str, ...] | None] = {}
    for array in nest.arrays:
        if array.role is Role.SCALAR:
            found[array.name] = next(
                (a.subscripts or None for s in nest.statements for a in s.accesses if a.array == array.name), None
            )
    return found
