"""Iterations of loops: how far apart they can be, and one of them as an example."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.witness import WITNESS_SIZES


def distances(nest: Nest, statement: Statement, loop: str) -> tuple[int, ...] | None:
    """For a loop around a statement, and each one inside that, by how much its values can differ at most.

    It is asked within one iteration of the loops around it. None where it grows with the sizes.
    """
    iterators, depth = statement.iterators, statement.iterators.index(loop)
    domain = isl.Set(statement.domain).intersect_params(isl.Set(nest.context))
    text = f"{{ {statement.name}[{', '.join(iterators)}] -> [{', '.join(iterators[:depth])}] }}"
    around = isl.Map(text).intersect_domain(domain)
    apart = around.apply_range(around.reverse()).deltas().project_out_all_params()
    if apart.is_empty():
        return tuple(0 for _ in iterators[depth:])
    spans: list[int] = []
    for position in range(depth, len(iterators)):
        greatest = apart.dim_max_val(position)
        if not greatest.is_int():
            return None
        spans.append(greatest.to_python())
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class Example:
    """One iteration with one element, at some sizes."""

    sizes: dict[str, int]
    iteration: tuple[int, ...]
    element: tuple[int, ...]


def example(found: isl.Map) -> Example:
    """The first iteration of a relation, not empty, from iterations to elements, at sizes as small as possible."""
    names = [str(found.get_dim_name(isl.dim_type.param, k)) for k in range(found.dim(isl.dim_type.param))]
    for size in WITNESS_SIZES:
        bounds = " and ".join(f"{name} <= {size}" for name in names)
        bounded = found.intersect_params(isl.Set(f"[{', '.join(names)}] -> {{ : {bounds or 'true'} }}"))
        if not bounded.is_empty():
            found = bounded
            break
    point = found.params().sample_point()
    values = [point.get_coordinate_val(isl.dim_type.param, k).to_python() for k in range(len(names))]
    fixed = found.intersect_params(isl.Set.from_point(point))
    first = fixed.intersect_domain(fixed.domain().lexmin()).lexmin()
    return Example(dict(zip(names, values, strict=True)), _coordinates(first.domain()), _coordinates(first.range()))


def _coordinates(point: isl.Set) -> tuple[int, ...]:
    sampled = point.sample_point()
    return tuple(
        sampled.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(point.dim(isl.dim_type.set))
    )
