"""A violated dependence made concrete: two iterations, at sizes as small as possible, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import islpy as isl

from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Statement
from optimizer.polyhedral.order import TimedLeaf, relation_text

WITNESS_SIZES = (4, 8, 16, 64, 256, 4096)
"""A witness is looked for at the smallest of these sizes first: small numbers are easier to follow."""


class Kind(StrEnum):
    RAW = "RAW"
    """Read after write: a flow dependence."""
    WAW = "WAW"
    """Write after write: an output dependence."""
    WAR = "WAR"
    """Write after read: an anti-dependence."""


class Fault(StrEnum):
    """What a schedule does to two iterations that must run one after the other."""

    ORDER = "order"
    """It runs the second first."""
    RACE = "race"
    """They are in two iterations of a parallel loop."""
    LANES = "lanes"
    """They may be in two lanes of one vector."""
    STALE = "stale"
    """The second reads a copy that is made before the first."""
    PARTIAL = "partial"
    """One adds to a partial result, which the other does not see."""


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
    fault: Fault
    """What `loop` does to the two."""
    element: tuple[int, ...]
    sizes: dict[str, int]

    @property
    def is_race(self) -> bool:
        return self.fault is Fault.RACE

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
            "fault": self.fault.value,
            "element": list(self.element),
            "sizes": self.sizes,
        }

    def __str__(self) -> str:
        element = f"{self.array}[{', '.join(map(str, self.element))}]" if self.element else self.array
        verb = {Kind.RAW: ("writes", "reads"), Kind.WAW: ("writes", "writes"), Kind.WAR: ("reads", "writes")}[self.kind]
        source = _iteration_text(self.source, self.source_iteration)
        sink = _iteration_text(self.sink, self.sink_iteration)
        match self.fault:
            case Fault.RACE:
                fault = f"the parallel loop {self.loop} may run both at the same time"
            case Fault.LANES:
                fault = f"the vectorized loop {self.loop} may run both at once, as two lanes of one vector"
            case Fault.STALE:
                fault = f"what is packed before {self.loop} is copied before both"
            case Fault.PARTIAL:
                fault = f"{self.loop} has partial results for one of the two, which the other does not see"
            case Fault.ORDER:
                fault = f"{f'loop {self.loop}' if self.loop else 'this schedule'} runs the second first"
        sizes = f" (sizes {', '.join(f'{k}={v}' for k, v in self.sizes.items())})" if self.sizes else ""
        return f"{source} {verb[0]} {element}, then {sink} {verb[1]} it ({self.kind}); {fault}{sizes}"


def witness_of(
    model: Model,
    timed: tuple[TimedLeaf, ...],
    violated: isl.UnionMap,
    fault: Fault = Fault.ORDER,
    loop: str | None = None,
) -> Witness:
    """One of the violated pairs, of which there must be one; `loop`: the one at fault, where it is known."""
    pair = _smallest_pair(model, violated)
    sizes = {name: _parameter_value(pair, position) for position, name in enumerate(_parameter_names(pair))}
    source_point, sink_point = pair.domain(), pair.range()
    source, sink = (model.nest.statement(s.get_tuple_name()) for s in (source_point, sink_point))
    array, kind, element = _shared_element(model, source, source_point, sink, sink_point)
    loop = loop or _separating_loop(model, timed, source_point, sink_point)
    return Witness(
        array=array,
        kind=kind,
        source=source.name,
        source_iteration=dict(zip(source.iterators, _coordinates(source_point), strict=True)),
        sink=sink.name,
        sink_iteration=dict(zip(sink.iterators, _coordinates(sink_point), strict=True)),
        loop=loop,
        fault=fault,
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
