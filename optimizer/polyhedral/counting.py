"""How many iterations, operations and bytes a nest has at given sizes: counted on the model, not run.

A count of integer points is a polynomial of the sizes wherever the corners of the set are the same integral functions
of them (E. Ehrhart, "Sur les polyèdres rationnels homogènes à n dimensions", 1962). It is found by counting at small
sizes and interpolating, after a proof that the corners there are those at the sizes asked for. Where there is no such
proof (strides, bounds such as `min(n, 100)` beyond their bend), a set is counted point by point if it is not too large,
and otherwise nothing is claimed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from math import prod

import islpy as isl
import numpy as np

from optimizer.polyhedral.evaluation import parts_of
from optimizer.polyhedral.model import Model, model_of, operation_limit
from optimizer.polyhedral.nest import Array, Nest, Role
from optimizer.polyhedral.operations import fewest_operations

SMALL = 40_000
"""Sets in a cube of at most so many points are counted directly, ..."""
LARGEST = 2_000_000
"""... and so are those up to this one that cannot be counted otherwise."""
BASE = 9
"""The smallest size of the interpolation: above the offsets and halos that loops of this kind have."""


def flops(nest: Nest, sizes: Mapping[str, int]) -> int:
    """How many different arithmetic operations a run does at these sizes, whatever its data are.

    An operation is a `+ - * / // % **` or a call of a mathematical function, with an element of an array among its
    operands or theirs. Signs, comparisons, casts, subscripts, the user's own helper functions and what can be computed
    from arguments and loop variables alone are free. Operations are the same one if their operands are (see
    `operations.py`), in whatever iterations and statements they stand: what was done once need not be done again.
    What a product with zero is, that sums can be regrouped and that nobody uses a result is not seen.

    Conditions on loop variables and sizes are followed exactly. Where conditions on data decide, the count is a lower
    bound for all data: each iteration counts the fewest operations that a way through its conditions has, of those that
    no other iteration can share. What cannot be counted, or told apart with bounded effort, is left out.

    That is the safe side for a limit of time: more would accuse code that hoists or skips what need not be done, and
    where less lets a false time pass, equivalence and a second measurement still stand in its way.
    """
    different: list[isl.Set] = []
    with suppress(isl.Error), operation_limit():
        different.extend(fewest_operations(model_of(nest)))
    return sum(count_points(points, sizes) or 0 for points in different)


def compulsory_bytes(nest: Nest, sizes: Mapping[str, int]) -> int:
    """The bytes that any schedule must move, caches however large: in, each element of an argument whose first use is a
    read; out, each element of an argument or a result that is written.

    What opaque statements touch does not count, as they may do without it, nor do reads that happen only if conditions
    on data turn out one way. Elements that cannot be counted are left out.
    """
    model = model_of(nest)
    total = 0
    for array in nest.arrays:
        if array.role is Role.SCALAR or (array.role is Role.LOCAL and not array.returned):
            continue
        moved = [_accesses_of(model, array.name, is_write=True).range()]
        if array.role is Role.ARGUMENT:
            moved.append(_read_first(model, array.name))
        for elements in moved:
            if not elements.is_empty():
                count = count_points(isl.Set.from_union_set(elements.coalesce()), sizes)
                total += np.dtype(array.dtype).itemsize * (count or 0)
    return total


def array_bytes(nest: Nest, sizes: Mapping[str, int]) -> int:
    """What the arrays of one call take, those that the function makes included."""
    return sum(bytes_of(nest, array, sizes) for array in nest.arrays if array.role is not Role.SCALAR)


def bytes_of(nest: Nest, array: Array, sizes: Mapping[str, int]) -> int:
    """What one array of a nest takes."""
    return np.dtype(array.dtype).itemsize * prod(_extent(nest, text, sizes) for text in array.shape)


def iterations(nest: Nest, sizes: Mapping[str, int]) -> int | None:
    """How often all statements together run; None when that cannot be counted."""
    counts = [count_points(domain, sizes) for domain in model_of(nest).domains.values()]
    return None if None in counts else sum(count for count in counts if count is not None)


def count_points(points: isl.Set, sizes: Mapping[str, int]) -> int | None:
    """The number of points of a set at these sizes; None when it cannot be had exactly."""
    points = points.reset_tuple_id() if points.has_tuple_name() else points
    if _cube(points, sizes) <= SMALL:
        return _count_at(points, sizes)
    factors = [points]
    with suppress(isl.Error), operation_limit():
        factors = _factors(points)
    counts = [_count_factor(factor, sizes) for factor in factors]
    return None if None in counts else prod(count for count in counts if count is not None)


def _factors(points: isl.Set) -> list[isl.Set]:
    """Sets of which it is the product: a box is the product of its sides, which are much easier to count."""
    degree = points.dim(isl.dim_type.set)
    for k in range(degree if degree > 1 else 0):
        others = points.project_out(isl.dim_type.set, k, 1)
        own = points.project_out(isl.dim_type.set, k + 1, degree - k - 1).project_out(isl.dim_type.set, 0, k)
        wide = own.insert_dims(isl.dim_type.set, 1, degree - k - 1).insert_dims(isl.dim_type.set, 0, k)
        if wide.intersect(others.insert_dims(isl.dim_type.set, k, 1)).is_equal(points):
            return [own, *_factors(others)]
    return [points]


def _count_factor(points: isl.Set, sizes: Mapping[str, int]) -> int | None:
    cube = _cube(points, sizes)
    if cube <= SMALL:
        return _count_at(points, sizes)
    names, degree = _parameters(points), points.dim(isl.dim_type.set)
    grid = [tuple(range(BASE, BASE + degree + 1)) for _ in names]
    places = {corner: dict(zip(names, corner, strict=True)) for corner in itertools.product(*grid)}
    if _is_one_polynomial(points, [{name: sizes[name] for name in names}, *places.values()]):
        values = {corner: _count_at(points, place) for corner, place in places.items()}
        return int(_interpolate(grid, values, tuple(sizes[name] for name in names)))
    return _count_at(points, sizes) if cube <= LARGEST else None


def _cube(points: isl.Set, sizes: Mapping[str, int]) -> int:
    """The points of a cube as wide as the largest size on which the set depends."""
    return max((sizes[name] + 1 for name in _parameters(points)), default=1) ** points.dim(isl.dim_type.set)


def _parameters(points: isl.Set) -> tuple[str, ...]:
    """The sizes on which a set depends."""
    return tuple(
        str(points.get_dim_name(isl.dim_type.param, k))
        for k in range(points.dim(isl.dim_type.param))
        if points.involves_dims(isl.dim_type.param, k, 1)
    )


def _is_one_polynomial(points: isl.Set, places: Sequence[Mapping[str, int]]) -> bool:
    """Whether one polynomial gives the count at all these sizes: each convex part has the same integral corners there,
    or is empty at all of them."""
    parts = points.make_disjoint().get_basic_set_list()
    for part in (parts.get_at(k) for k in range(parts.n_basic_set())):
        if part.dim(isl.dim_type.div):
            return False
        cells: list[tuple[isl.Set, bool]] = []
        part.compute_vertices().foreach_cell(lambda cell, cells=cells: cells.append(_cell(cell)))
        homes = [{k for k, (domain, _) in enumerate(cells) if not _at(domain, place).is_empty()} for place in places]
        shared = set[int].intersection(*homes)
        if any(homes) and not any(cells[k][1] for k in shared):
            return False
    return True


def _cell(cell: isl.Cell) -> tuple[isl.Set, bool]:
    """Sizes at which a convex set has the same corners, and whether those are integral."""
    expressions: list[isl.MultiAff] = []
    cell.foreach_vertex(lambda vertex: expressions.append(vertex.get_expr()))
    entries = [expression.get_aff(k) for expression in expressions for k in range(expression.dim(isl.dim_type.out))]
    return isl.Set.from_basic_set(cell.get_domain()), all(entry.get_denominator_val().is_one() for entry in entries)


def _read_first(model: Model, array: str) -> isl.UnionSet:
    """The elements of an array that some iteration certainly reads before any writes them."""
    reads = _accesses_of(model, array, is_write=False)
    writes = isl.UnionMap(f"[{', '.join(model.nest.parameters)}] -> {{ }}")
    for statement in model.nest.statements:
        for access in statement.accesses:
            if access.is_write and access.array == array:
                writes = writes.union(model.access_relation(statement, access))
    if reads.is_empty() or writes.is_empty():
        return reads.range()
    order = model.original_order
    before = order.intersect_domain(writes.domain()).lex_lt_union_map(order.intersect_domain(reads.domain()))
    return reads.subtract(before.reverse().apply_range(writes)).range()


def _accesses_of(model: Model, array: str, *, is_write: bool) -> isl.UnionMap:
    """From iterations to the elements that they touch in any case."""
    result = isl.UnionMap(f"[{', '.join(model.nest.parameters)}] -> {{ }}")
    for statement in (statement for statement in model.nest.statements if not statement.opaque):
        accesses = [access for access in statement.accesses if access.array == array and access.is_write is is_write]
        for access in accesses if is_write else ():
            result = result.union(model.access_relation(statement, access))
        for part in parts_of(model, statement) if accesses and not is_write else ():
            for access in part.certain_reads:
                if access.array == array:
                    relation = model.access_relation(statement, access)
                    result = result.union(relation.intersect_domain(isl.UnionSet(part.iterations)))
    return result


def _extent(nest: Nest, text: str, sizes: Mapping[str, int]) -> int:
    value = isl.Set(f"[{', '.join(nest.parameters)}] -> {{ [{text}] }}")
    return max(0, _at(value, sizes).dim_max_val(0).to_python())


def _count_at(points: isl.Set, sizes: Mapping[str, int]) -> int:
    return _at(points, sizes).count_val().to_python()


def _at(points: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    for k in range(points.dim(isl.dim_type.param)):
        name = str(points.get_dim_name(isl.dim_type.param, k))
        if name in sizes:
            points = points.fix_val(isl.dim_type.param, k, isl.Val(sizes[name]))
    return points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))


def _interpolate(grid: list[tuple[int, ...]], values: Mapping[tuple[int, ...], int], at: tuple[int, ...]) -> Fraction:
    """Lagrange's polynomial through the values on the grid, at another point."""
    weights = [
        {x: prod((Fraction(t - other, x - other) for other in axis if other != x), start=Fraction(1)) for x in axis}
        for axis, t in zip(grid, at, strict=True)
    ]
    return sum(
        (value * prod((w[x] for w, x in zip(weights, corner, strict=True)), start=Fraction(1)))
        for corner, value in values.items()
    ) + Fraction(0)
