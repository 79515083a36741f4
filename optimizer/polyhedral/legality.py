"""Is a finished schedule legal? One question about the whole tree, for all sizes at once, with a witness if it is not.

No dataflow is needed: every pair of conflicting iterations is known from the original order (`Model.conflicts`); the
new order must keep each pair, no pair may be split between two iterations of a parallel loop, and vectors must keep the
order too; but for pairs of reductions that marked loops leave free (see `partial_results`). Nothing is remembered from
the steps that led to the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import islpy as isl

from optimizer.polyhedral.model import OPERATION_LIMIT, Model, operation_limit
from optimizer.polyhedral.order import TimedLeaf, relation_text, timed_leaves
from optimizer.polyhedral.packing import packing_fault, stale_reads
from optimizer.polyhedral.partial_results import partial_statements, seen_too_early, shared_in
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.tree import WIDEST_VECTOR, Loop, Node, find_loop, loops
from optimizer.polyhedral.witness import Fault, Witness, witness_of


class Legal(StrEnum):
    YES = "legal"
    NO = "illegal"
    UNKNOWN = "unknown"
    """isl gave up within its operation limit: never accepted."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer about one finished schedule."""

    legal: Legal
    witness: Witness | None = None
    detail: str = ""


def judge(model: Model, tree: Node, limit: int = OPERATION_LIMIT) -> Judgement:
    """Decide the whole schedule: all of RAW, WAR and WAW of every array and scalar, and every parallel loop and
    every vectorized one, and whether packed copies hold what is read from them.

    `limit` caps isl's operations, so that the answer never depends on the load of the machine.
    """
    try:
        model = model_for(model, tree)
        # With a limit of its own, so that no verdict depends on whether they were known already.
        with operation_limit(limit):
            _ = model.conflict_maps
        with operation_limit(limit):
            return _judge(model, tree)
    except isl.Error as error:
        return Judgement(Legal.UNKNOWN, detail=f"the analysis gave up: {str(error).splitlines()[0]}")


def _judge(model: Model, tree: Node) -> Judgement:
    timed = timed_leaves(tree)
    if fault := _coverage_fault(model, timed):
        return Judgement(Legal.NO, detail=fault)
    violated = _out_of_order(model, timed, _marked(tree))
    if not violated.is_empty():
        return Judgement(Legal.NO, witness_of(model, timed, violated))
    for loop in loops(tree):
        if loop.is_parallel:
            races = carried_by(model, timed, loop)
            if not races.is_empty():
                return Judgement(Legal.NO, witness_of(model, timed, races, Fault.RACE, loop.name))
        if loop.vector != 1:
            broken = broken_by_vectors(model, timed, loop)
            if not broken.is_empty():
                return Judgement(Legal.NO, witness_of(model, timed, broken, Fault.LANES, loop.name))
        if loop.partials != 1 and (loop.is_parallel or loop.vector != 1):
            early = seen_too_early(model, timed, loop)
            if not early.is_empty():
                return Judgement(Legal.NO, witness_of(model, timed, early, Fault.PARTIAL, loop.name))
    if fault := packing_fault(model.nest, tree):
        return Judgement(Legal.NO, detail=fault)
    for loop, stale in stale_reads(model, tree, timed):
        if not stale.is_empty():
            return Judgement(Legal.NO, witness_of(model, timed, stale, Fault.STALE, loop.name))
    return Judgement(Legal.YES)


def _marked(tree: Node) -> tuple[str, ...]:
    """The loops whose iterations reductions may run in any order."""
    return tuple(loop.name for loop in loops(tree) if loop.partials != 1)


def _out_of_order(model: Model, timed: tuple[TimedLeaf, ...], marked: tuple[str, ...]) -> isl.UnionMap:
    """The conflicts whose sink does not run after their source, and that no marked loop is free to turn round."""
    order = _relations(model, timed, slice(None))
    found = isl.UnionMap("{ }")
    for pairs in model.conflict_maps:
        source, sink = _tuple_names(pairs)
        violated = pairs.intersect(order[source].lex_ge_map(order[sink]))
        for loop in marked if not violated.is_empty() else ():
            free = shared_in(model, timed, loop, source, sink)
            violated = violated if free is None else violated.subtract(free)
        if not violated.is_empty():
            found = found.union(isl.UnionMap.from_map(violated))
    return found


def carried_by(model: Model, timed: tuple[TimedLeaf, ...], loop: Loop) -> isl.UnionMap:
    """The conflicts between different iterations of a loop within one iteration of all loops around it, without those
    that its mark leaves free."""
    found = isl.UnionMap("{ }")
    for carried in _carried(model, timed, loop):
        found = found.union(isl.UnionMap.from_map(carried))
    return found


def _carried(model: Model, timed: tuple[TimedLeaf, ...], loop: Loop) -> Iterator[isl.Map]:
    """What `carried_by` finds, one pair of statements after the other."""
    inside = tuple(leaf for leaf in timed if loop.name in leaf.levels)
    depth = inside[0].levels.index(loop.name)
    own = _relations(model, inside, slice(0, depth + 1))
    outer = {name: relation.project_out(isl.dim_type.out, depth, 1) for name, relation in own.items()}
    for pairs in model.conflict_maps:
        source, sink = _tuple_names(pairs)
        if source not in own or sink not in own:
            continue
        same_outer = pairs.intersect(outer[source].apply_range(outer[sink].reverse())) if depth else pairs
        if same_outer.is_empty():
            continue
        carried = same_outer.subtract(own[source].apply_range(own[sink].reverse()))
        if loop.partials != 1 and (source, sink) in model.free_pairs:
            carried = carried.subtract(model.free_pairs[source, sink])
        if not carried.is_empty():
            yield carried


def broken_by_vectors(model: Model, timed: tuple[TimedLeaf, ...], loop: Loop) -> isl.UnionMap:
    """The conflicts that are in order, but not if a loop runs a vector of its iterations at once, wherever it begins;
    without those of partial results.

    A vector runs what is in the loop one after the other, each for all lanes. So of two iterations less than `lanes`
    apart the first still comes first if what it runs stands before what the second runs, and not otherwise.
    """
    inside = tuple(leaf for leaf in timed if loop.name in leaf.levels)
    depth = inside[0].levels.index(loop.name)
    times = _relations(model, inside, slice(None))
    at_once = _at_once(depth, max(len(leaf.time) for leaf in inside), loop.vector or WIDEST_VECTOR)
    partial = partial_statements(model, timed, loop)
    found = isl.UnionMap("{ }")
    for pairs in model.conflict_maps:
        source, sink = _tuple_names(pairs)
        if source in times and sink in times:
            broken = pairs.intersect(times[source].apply_range(at_once).apply_range(times[sink].reverse()))
            if loop.partials != 1 and (source, sink) in model.free_pairs:
                free = model.free_pairs[source, sink]
                turned = times[sink].apply_range(at_once).apply_range(times[source].reverse()).reverse()
                is_partial = {source, sink} <= partial
                broken = broken.subtract(free) if is_partial else broken.union(free.intersect(turned))
            if not broken.is_empty():
                found = found.union(isl.UnionMap.from_map(broken))
    return found


def _at_once(depth: int, width: int, lanes: int) -> isl.Map:
    """From timestamps to those that differ first in entry `depth`, by less than `lanes`, and do not come later in what
    follows that entry."""
    first, second = ([f"{stem}{k}" for k in range(width)] for stem in ("a", "b"))
    same = [f"{a} = {b}" for a, b in zip(first, second, strict=True)]
    near = f"0 < {second[depth]} - {first[depth]} < {lanes}"
    not_later = " or ".join(
        " and ".join([*same[depth + 1 : k], f"{first[k]} > {second[k]}"]) for k in range(depth + 1, width)
    )
    equal = " and ".join(same[depth + 1 :]) or "true"
    condition = " and ".join([*same[:depth], near, f"({equal}{f' or {not_later}' if not_later else ''})"])
    return isl.Map(f"{{ [{', '.join(first)}] -> [{', '.join(second)}] : {condition} }}")


def _relations(model: Model, timed: tuple[TimedLeaf, ...], entries: slice) -> dict[str, isl.Map]:
    """For each statement among the leaves, the relation from its iterations to (some entries of) their timestamps."""
    union = isl.UnionMap(relation_text(model.nest, timed, entries)).intersect_domain(model.domain)
    maps = union.get_map_list()
    found = {str(m.get_tuple_name(isl.dim_type.in_)): m for m in map(maps.get_at, range(maps.n_map()))}
    width = max((len(leaf.time[entries]) for leaf in timed), default=0)
    for leaf in timed:
        # A statement that never runs has no map in the union.
        domain = model.domains[leaf.leaf.statement]
        nothing = domain.get_space().from_domain().add_dims(isl.dim_type.out, width)
        found.setdefault(leaf.leaf.statement, isl.Map.empty(nothing))
    return found


def _tuple_names(pairs: isl.Map) -> tuple[str, str]:
    return str(pairs.get_tuple_name(isl.dim_type.in_)), str(pairs.get_tuple_name(isl.dim_type.out))


def parallel_loops(model: Model, tree: Node) -> frozenset[str]:
    """The loops that could be marked parallel as the tree stands, each by itself."""
    return frozenset(loop.name for loop in loops(tree) if can_be_parallel(model, tree, loop.name))


def can_be_parallel(model: Model, tree: Node, loop: str) -> bool:
    """Whether a loop is proved to carry nothing as the tree stands, but what its mark leaves free."""
    found = find_loop(tree, loop)
    assert found is not None
    try:
        with operation_limit():
            model, timed = model_for(model, tree), timed_leaves(tree)
            if next(_carried(model, timed, found), None) is not None:
                return False
            return found.partials == 1 or seen_too_early(model, timed, found).is_empty()
    except isl.Error:
        return False


def _coverage_fault(model: Model, timed: tuple[TimedLeaf, ...]) -> str:
    """Why the leaves do not run every iteration exactly once; empty when they do."""
    parts: dict[str, list[tuple[str, ...]]] = {name: [] for name in model.domains}
    for leaf in timed:
        parts[leaf.leaf.statement].append(leaf.leaf.where)
    faults = (coverage_fault(model, name, conditions) for name, conditions in parts.items())
    return next(filter(None, faults), "")


def coverage_fault(model: Model, name: str, parts: Sequence[tuple[str, ...]]) -> str:
    """Why parts of a statement, each with the conditions of its iterations, are not every iteration exactly once; empty
    when they are."""
    statement, whole = model.nest.statement(name), model.domains[name]
    if len(parts) == 1 and not parts[0]:
        return ""
    union = isl.Set.empty(whole.get_space())
    for conditions in parts:
        piece = whole
        if conditions:
            text = f"{statement.name}[{', '.join(statement.iterators)}] : {' and '.join(f'({c})' for c in conditions)}"
            piece = whole.intersect(isl.Set(f"[{', '.join(model.nest.parameters)}] -> {{ {text} }}"))
        if not union.is_disjoint(piece):
            return f"some iterations of {name} would run twice"
        union = union.union(piece)
    return "" if union.is_equal(whole) else f"some iterations of {name} would not run"
