"""How much memory one iteration of each loop touches, to be held against the sizes of caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import islpy as isl
import numpy as np

from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.tree import Leaf, Node, leaves, loops


def footprints(model: Model, tree: Node, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """For each loop, outer before inner, the bytes that an iteration in its middle touches at most.

    Of each array, the box around all touched elements counts, or those of the single accesses if that is less. Loops
    that isl gives up on are left out.
    """
    for loop in loops(tree):
        inside = tuple(leaves(loop.body))
        around = [each.name for each in loops(tree) if all(each.name in leaf.values for leaf in inside)]
        fixed = around[: around.index(loop.name) + 1]
        try:
            with operation_limit():
                if touched := _touched_bytes(model, inside, fixed, sizes):
                    yield loop.name, touched
        except isl.Error:
            continue


def _touched_bytes(model: Model, inside: tuple[Leaf, ...], fixed: list[str], sizes: Mapping[str, int]) -> int:
    """The bytes that these leaves touch while the fixed loops stand still, in the middle of what the first one runs."""
    touched = touched_elements(model, inside, fixed, sizes)
    arrays = [model.nest.array(name) for name in touched]
    return sum(np.dtype(a.dtype).itemsize * touched[a.name].count() for a in arrays if a.shape)


@dataclass(slots=True)
class Touched:
    """The elements of one array, or of an expanded scalar, that each access reads or writes."""

    read: list[isl.Set] = field(default_factory=list[isl.Set])
    written: list[isl.Set] = field(default_factory=list[isl.Set])

    def count(self) -> int:
        """How many, at most: those in the box around all, or in those of the single accesses if that is less."""
        return count_elements([*self.read, *self.written])


def touched_elements(
    model: Model, inside: Sequence[Leaf], fixed: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, Touched]:
    """What these leaves touch while the fixed loops stand still, in the middle of what the first one runs, by array."""
    here = _middle(_iterations(model, inside[0], sizes))
    touched: dict[str, Touched] = {}
    if here is None:
        return touched
    values = isl.Set.from_point(here).apply(_values(model, inside[0], fixed))
    for leaf in inside:
        running = _iterations(model, leaf, sizes).intersect(values.apply(_values(model, leaf, fixed).reverse()))
        statement = model.nest.statement(leaf.statement)
        for access in statement.accesses if not running.is_empty() else ():
            elements = isl.Map.from_union_map(model.access_relation(statement, access)).intersect_domain(running)
            found = touched.setdefault(access.array, Touched())
            (found.written if access.is_write else found.read).append(elements.range())
    return touched


def range_of(model: Model, leaf: Leaf, loop: str, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and the greatest value of a loop around a leaf at these sizes; None where it has none."""
    values = _iterations(model, leaf, sizes).apply(_values(model, leaf, [loop]))
    if values.is_empty():
        return None
    return values.dim_min_val(0).to_python(), values.dim_max_val(0).to_python()


def _iterations(model: Model, leaf: Leaf, sizes: Mapping[str, int]) -> isl.Set:
    """What a leaf runs at these sizes."""
    equal = [f"{name} = {value}" for name, value in sizes.items() if name in model.nest.parameters]
    conditions = " and ".join(f"({condition})" for condition in (*leaf.where, *equal)) or "true"
    text = f"[{', '.join(model.nest.parameters)}] -> {{ {instance_tuple(model.nest, leaf.statement)} : {conditions} }}"
    return model.domains[leaf.statement].intersect(isl.Set(text))


def _values(model: Model, leaf: Leaf, names: Sequence[str]) -> isl.Map:
    place = ", ".join(f"({leaf.values[name]})" for name in names)
    iteration = instance_tuple(model.nest, leaf.statement)
    return isl.Map(f"[{', '.join(model.nest.parameters)}] -> {{ {iteration} -> [{place}] }}")


def _middle(points: isl.Set) -> isl.Point | None:
    """A point with each coordinate halfway, the earlier ones given; None if there is none."""
    for k in range(points.dim(isl.dim_type.set)):
        if points.is_empty():
            return None
        low, high = points.dim_min_val(k).to_python(), points.dim_max_val(k).to_python()
        points = points.fix_val(isl.dim_type.set, k, isl.Val((low + high) // 2))
    return None if points.is_empty() else points.sample_point()


def count_elements(parts: list[isl.Set]) -> int:
    if not parts:
        return 0
    distinct = [part for k, part in enumerate(parts) if not any(part.is_equal(other) for other in parts[:k])]
    return min(_box(reduce(isl.Set.union, distinct)), sum(map(_box, distinct)))


def _box(elements: isl.Set) -> int:
    if elements.is_empty():
        return 0
    sides = (
        elements.dim_max_val(k).to_python() - elements.dim_min_val(k).to_python() + 1
        for k in range(elements.dim(isl.dim_type.set))
    )
    return prod(sides)
