"""How many iterations, operations and bytes a nest has at given sizes: counted on the model, not run.

A count of integer points is a polynomial of the sizes once they are not tiny (Ehrhart). It is found by counting at
small sizes and interpolating, and is checked at further sizes; where that fails the count is 0, which claims nothing.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from fractions import Fraction
from math import prod

import islpy as isl

from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest, Role, Statement

SMALL = 40_000
"""Sets in a cube of at most so many points are counted directly."""
BASE = 9
"""The smallest size of the interpolation: above the offsets and halos that loops of this kind have."""

ITEM_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "int16": 2, "int8": 1}


def operations(body: str) -> int:
    """Arithmetic operations of one run of a statement: + - * / ** and calls; comparisons and subscripts are free."""

    def count(node: ast.AST) -> int:
        if isinstance(node, ast.Subscript):
            return 0
        own = isinstance(node, ast.BinOp | ast.Call | ast.AugAssign)
        return int(own) + sum(count(child) for child in ast.iter_child_nodes(node))

    return count(ast.parse(body))


def flops(nest: Nest, sizes: Mapping[str, int]) -> int:
    """All arithmetic operations of the nest at these sizes."""
    model = model_of(nest)
    return sum(operations(s.body) * count_points(model.domains[s.name], sizes) for s in nest.statements)


def compulsory_bytes(nest: Nest, sizes: Mapping[str, int]) -> int:
    """The bytes that any schedule must move: each element of the arguments that is read, and that is written, once."""
    model = model_of(nest)
    total = 0
    for array in nest.arrays:
        if array.role is not Role.ARGUMENT:
            continue
        for is_write in (False, True):
            touched = [
                model.access_relation(statement, access).range()
                for statement in nest.statements
                for access in statement.accesses
                if access.array == array.name and access.is_write is is_write
            ]
            if not touched:
                continue
            union = touched[0]
            for other in touched[1:]:
                union = union.union(other)
            elements = isl.Set.from_union_set(union.coalesce()) if not union.is_empty() else None
            if elements is not None:
                total += ITEM_BYTES.get(array.dtype, 1) * count_points(elements, sizes)
    return total


def iterations(nest: Nest, statement: Statement, sizes: Mapping[str, int]) -> int:
    """How often a statement runs."""
    return count_points(model_of(nest).domains[statement.name], sizes)


def count_points(points: isl.Set, sizes: Mapping[str, int]) -> int:
    """The number of points of a set at these sizes; 0 when it cannot be had exactly."""
    names = tuple(
        str(points.get_dim_name(isl.dim_type.param, k))
        for k in range(points.dim(isl.dim_type.param))
        if points.involves_dims(isl.dim_type.param, k, 1)
    )
    degree = points.dim(isl.dim_type.set)
    if max((sizes[name] + 1 for name in names), default=1) ** degree <= SMALL:
        return _count_at(points, sizes)
    grid = [tuple(range(BASE, BASE + degree + 1)) for _ in names]
    values = {corner: _count_at(points, dict(zip(names, corner, strict=True))) for corner in itertools.product(*grid)}
    for check in (BASE + degree + 1, BASE + degree + 4):
        at = tuple(check + k for k in range(len(names)))
        if _interpolate(grid, values, at) != _count_at(points, dict(zip(names, at, strict=True))):
            return 0
    return int(_interpolate(grid, values, tuple(sizes[name] for name in names)))


def _count_at(points: isl.Set, sizes: Mapping[str, int]) -> int:
    for k in range(points.dim(isl.dim_type.param)):
        name = str(points.get_dim_name(isl.dim_type.param, k))
        if name in sizes:
            points = points.fix_val(isl.dim_type.param, k, isl.Val(sizes[name]))
    points = points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))
    return points.count_val().to_python()


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
