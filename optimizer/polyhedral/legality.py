"""Is a finished schedule legal? One question about the whole tree, for all sizes at once, with a witness if it is not.

No dataflow is needed: every pair of conflicting iterations is known from the original order (`Model.conflicts`); the
new order must keep each pair, and no pair may be split between two iterations of a parallel loop. Nothing is remembered
from the steps that led to the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import islpy as isl

from optimizer.polyhedral.model import OPERATION_LIMIT, Model, operation_limit
from optimizer.polyhedral.nest import Statement
from optimizer.polyhedral.order import TimedLeaf, relation_text, timed_leaves
from optimizer.polyhedral.tree import Node, loops

WITNESS_SIZES = (4, 8, 16, 64, 256, 4096)
"""A witness is looked for at the smallest of these sizes first: small numbers are easier to follow."""


class Legal(StrEnum):
    YES = "legal"
    NO = "illegal"
    UNKNOWN = "unknown"
    """isl gave up within its operation limit: never accepted."""


class Kind(StrEnum):
    RAW = "RAW"
    """Read after write: a flow dependence."""
    WAW = "WAW"
    """Write after write: an output dependence."""
    WAR = "WAR"
    """Write after read: an anti-dependence."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A concrete violated dependence: the source must run before the sink, and this schedule does not see to it."""

    array: str
    kind: Kind
    source: str
    source_iteration: dict[str, int]
    sink: str
    sink_iteration: dict[str, int]
    loop: str | None
    """The loop of the schedule that runs them in the wrong order or at once; None if no loop separates them."""
    is_race: bool
    """Whether `loop` is parallel and the two are in different iterations of it."""
    element: tuple[int, ...]
    sizes: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "array": self.array,
            "kind": self.kind.value,
            "source": self.source,
            "source_iteration": self.source_iteration,
            "sink": self.sink,
            "sink_iteration": self.sink_iteration,
            "loop": self.loop,
            "is_race": self.is_race,
            "element": list(self.element),
            "sizes": self.sizes,
        }

    def __str__(self) -> str:
        element = f"{self.array}[{', '.join(map(str, self.element))}]" if self.element else self.array
        verb = {Kind.RAW: ("writes", "reads"), Kind.WAW: ("writes", "writes"), Kind.WAR: ("reads", "writes")}[self.kind]
        source = _iteration_text(self.source, self.source_iteration)
        sink = _iteration_text(self.sink, self.sink_iteration)
        if self.is_race:
            fault = f"the parallel loop {self.loop} may run both at the same time"
        elif self.loop:
            fault = f"loop {self.loop} runs the second first"
        else:
            fault = "this schedule runs the second first"
        sizes = f" (sizes {', '.join(f'{k}={v}' for k, v in self.sizes.items())})" if self.sizes else ""
        return f"{source} {verb[0]} {element}, then {sink} {verb[1]} it ({self.kind}); {fault}{sizes}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer about one finished schedule."""

    legal: Legal
    witness: Witness | None = None
    detail: str = ""


def judge(model: Model, tree: Node, limit: int = OPERATION_LIMIT) -> Judgement:
    """Decide the whole schedule: all of RAW, WAR and WAW of every array and scalar, and every parallel loop.

    `limit` caps isl's operations, so that the answer never depends on the load of the machine.
    """
    try:
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
    violated = _out_of_order(model, timed)
    if not violated.is_empty():
        return Judgement(Legal.NO, _witness(model, timed, violated, race=None))
    for loop in loops(tree):
        if loop.is_parallel:
            races = carried_by(model, timed, loop.name)
            if not races.is_empty():
                return Judgement(Legal.NO, _witness(model, timed, races, race=loop.name))
    return Judgement(Legal.YES)


def _out_of_order(model: Model, timed: tuple[TimedLeaf, ...]) -> isl.UnionMap:
    """The conflicts whose sink does not run after their source."""
    order = _relations(model, timed, slice(None))
    found = isl.UnionMap("{ }")
    for pairs in model.conflict_maps:
        source, sink = _tuple_names(pairs)
        violated = pairs.intersect(order[source].lex_ge_map(order[sink]))
        if not violated.is_empty():
            found = found.union(isl.UnionMap.from_map(violated))
    return found


def carried_by(model: Model, timed: tuple[TimedLeaf, ...], loop: str) -> isl.UnionMap:
    """The conflicts between different iterations of a loop within one iteration of all loops around it."""
    found = isl.UnionMap("{ }")
    for carried in _carried(model, timed, loop):
        found = found.union(isl.UnionMap.from_map(carried))
    return found


def _carried(model: Model, timed: tuple[TimedLeaf, ...], loop: str) -> Iterator[isl.Map]:
    """What `carried_by` finds, one pair of statements after the other."""
    inside = tuple(leaf for leaf in timed if loop in leaf.levels)
    depth = inside[0].levels.index(loop)
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
        if not carried.is_empty():
            yield carried


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
    """Whether a loop is proved to carry nothing as the tree stands."""
    try:
        with operation_limit():
            return next(_carried(model, timed_leaves(tree), loop), None) is None
    except isl.Error:
        return False


def _coverage_fault(model: Model, timed: tuple[TimedLeaf, ...]) -> str:
    """Why the leaves do not run every iteration exactly once; empty when they do."""
    parts: dict[str, list[isl.Set]] = {name: [] for name in model.domains}
    for leaf in timed:
        domain = model.domains[leaf.leaf.statement]
        if leaf.leaf.where:
            statement = model.nest.statement(leaf.leaf.statement)
            condition = " and ".join(f"({c})" for c in leaf.leaf.where)
            header = f"[{', '.join(model.nest.parameters)}] -> "
            text = f"{header}{{ {statement.name}[{', '.join(statement.iterators)}] : {condition} }}"
            domain = domain.intersect(isl.Set(text))
        parts[leaf.leaf.statement].append(domain)
    for name, pieces in parts.items():
        if len(pieces) == 1 and pieces[0].is_equal(model.domains[name]):
            continue
        union = isl.Set.empty(model.domains[name].get_space())
        for piece in pieces:
            if not union.is_disjoint(piece):
                return f"some iterations of {name} would run twice"
            union = union.union(piece)
        if not union.is_equal(model.domains[name]):
            return f"some iterations of {name} would not run"
    return ""


def _witness(model: Model, timed: tuple[TimedLeaf, ...], violated: isl.UnionMap, race: str | None) -> Witness:
    pair = _smallest_pair(model, violated)
    sizes = {name: _parameter_value(pair, position) for position, name in enumerate(_parameter_names(pair))}
    source_point, sink_point = pair.domain(), pair.range()
    source, sink = (model.nest.statement(s.get_tuple_name()) for s in (source_point, sink_point))
    array, kind, element = _shared_element(model, source, source_point, sink, sink_point)
    loop = race or _separating_loop(model, timed, source_point, sink_point)
    return Witness(
        array=array,
        kind=kind,
        source=source.name,
        source_iteration=dict(zip(source.iterators, _coordinates(source_point), strict=True)),
        sink=sink.name,
        sink_iteration=dict(zip(sink.iterators, _coordinates(sink_point), strict=True)),
        loop=loop,
        is_race=race is not None,
        element=element,
        sizes=sizes,
    )


def _smallest_pair(model: Model, violated: isl.UnionMap) -> isl.Map:
    """One pair of iterations as a relation with one element and fixed sizes, at sizes as small as possible.

    A write and a later read, if there is one among them: the kind of dependence that is easiest to see.
    """
    flow = violated.intersect(model.writes.apply_range(model.reads.reverse()))
    candidates = violated = violated if flow.is_empty() else flow
    for size in WITNESS_SIZES:
        bounds = " and ".join(f"{name} <= {size}" for name in model.nest.parameters)
        text = f"[{', '.join(model.nest.parameters)}] -> {{ : {bounds or 'true'} }}"
        bounded = violated.intersect_params(isl.Set(text))
        if not bounded.is_empty():
            candidates = bounded
            break
    sample: isl.Map = isl.Map.from_union_map(candidates.sample())
    maps = candidates.get_map_list()
    same = next(m for m in map(maps.get_at, range(maps.n_map())) if m.get_space().has_equal_tuples(sample.get_space()))
    fixed = same.intersect_params(sample.params())
    try:
        return fixed.intersect_domain(fixed.domain().lexmin()).lexmin()
    except isl.Error:
        # isl cannot order some sets with divisions in them; any pair is as true as the least.
        return isl.Map.from_basic_map(fixed.sample())


def _shared_element(
    model: Model, source: Statement, source_point: isl.Set, sink: Statement, sink_point: isl.Set
) -> tuple[str, Kind, tuple[int, ...]]:
    kinds = {(True, False): Kind.RAW, (True, True): Kind.WAW, (False, True): Kind.WAR}
    found: list[tuple[Kind, str, tuple[int, ...]]] = []
    for first in source.accesses:
        for second in sink.accesses:
            if first.array != second.array or not (first.is_write or second.is_write):
                continue
            touched = [
                model.access_relation(statement, access).intersect_domain(isl.UnionSet.from_set(point)).range()
                for statement, access, point in ((source, first, source_point), (sink, second, sink_point))
            ]
            common = touched[0].intersect(touched[1])
            if not common.is_empty():
                element = isl.Set.from_union_set(common)
                found.append((kinds[first.is_write, second.is_write], first.array, _coordinates(element)))
    kind, array, element = min(found, key=lambda item: list(Kind).index(item[0]))
    return array, kind, element


def _separating_loop(
    model: Model, timed: tuple[TimedLeaf, ...], source_point: isl.Set, sink_point: isl.Set
) -> str | None:
    """The outermost loop at which the two iterations differ, if they differ at a loop first."""
    times: list[tuple[tuple[int, ...], tuple[str | None, ...]]] = []
    for point in (source_point, sink_point):
        for leaf in timed:
            if leaf.leaf.statement != point.get_tuple_name():
                continue
            at = isl.UnionMap(relation_text(model.nest, (leaf,))).intersect_domain(isl.UnionSet.from_set(point))
            if not at.is_empty():
                times.append((_coordinates(isl.Set.from_union_set(at.range())), leaf.levels))
                break
    (first, levels), (second, _) = times
    for level, one, other in zip(levels, first, second, strict=False):
        if one != other:
            return level
    return None


def _coordinates(point: isl.Set) -> tuple[int, ...]:
    """The integer coordinates of a set with one element."""
    sampled = point.sample_point()
    dimensions = point.dim(isl.dim_type.set)
    return tuple(sampled.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(dimensions))


def _parameter_names(pair: isl.Map) -> tuple[str, ...]:
    return tuple(str(pair.get_dim_name(isl.dim_type.param, k)) for k in range(pair.dim(isl.dim_type.param)))


def _parameter_value(pair: isl.Map, position: int) -> int:
    return pair.params().sample_point().get_coordinate_val(isl.dim_type.param, position).to_python()


def _iteration_text(statement: str, iteration: dict[str, int]) -> str:
    return f"{statement}({', '.join(f'{name}={value}' for name, value in iteration.items())})"
