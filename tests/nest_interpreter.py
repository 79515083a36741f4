"""Runs a nest without any code generator: lists every iteration, sorts them by the tree's order, executes the bodies.

The slowest and plainest meaning a nest can have, to compare with what the function itself does. An expanded scalar
has one element for each of its subscripts here, and an element must be written before it is read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import product
from typing import Any

import islpy as isl
import numpy as np

from optimizer.polyhedral.nest import ANYWHERE, ArgumentKind, Nest, Role
from optimizer.polyhedral.order import timed_leaves


def sizes_of(nest: Nest, arguments: Mapping[str, Any]) -> dict[str, int]:
    """The value of every parameter."""
    symbols = {symbol: arguments[array].shape[dimension] for symbol, array, dimension in nest.extents}
    whole = {a.name: arguments[a.name] for a in nest.arguments if a.kind is ArgumentKind.PARAMETER}
    return {name: int((whole | symbols)[name]) for name in nest.parameters}


def instances(nest: Nest, sizes: Mapping[str, int]) -> list[tuple[str, dict[str, int]]]:
    """Every iteration (statement and values of its iterators) in the order of the nest's tree."""
    found: list[tuple[tuple[int, ...], str, dict[str, int]]] = []
    for timed in timed_leaves(nest.tree):
        statement = nest.statement(timed.leaf.statement)
        for point in points(isl.Set(statement.domain), sizes):
            values = dict(zip(statement.iterators, point, strict=True))
            time = tuple(eval(entry, {}, values) for entry in timed.time)
            found.append((time, statement.name, values))
    return [(name, values) for _, name, values in sorted(found, key=lambda item: item[0])]


def points(domain: isl.Set, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Every element of a set at the given sizes."""
    for name, value in sizes.items():
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0:
            domain = domain.fix_val(isl.dim_type.param, position, isl.Val(value))
    found: list[tuple[int, ...]] = []
    dimensions = range(domain.dim(isl.dim_type.set))
    domain.project_out_all_params().foreach_point(
        lambda point: found.append(tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in dimensions))
    )
    return found


def run(nest: Nest, arguments: Mapping[str, Any]) -> Any:
    """What the function returns; arrays among the arguments are changed as the function changes them."""
    sizes = sizes_of(nest, arguments)
    space: dict[str, Any] = {"np": np}
    exec(nest.preamble, space)
    space |= {**arguments, **sizes}
    for array in nest.arrays:
        if array.role is Role.LOCAL:
            shape = tuple(max(0, eval(extent, {}, dict(sizes))) for extent in array.shape)
            space[array.name] = getattr(np, array.fill)(shape, dtype=array.dtype)
    exec("\n".join(nest.prologue), space)
    bodies = {statement.name: compile(statement.body, statement.name, "exec") for statement in nest.statements}
    scalars = {array.name for array in nest.arrays if array.role is Role.SCALAR}
    memory: dict[tuple[str, Any], Any] = {(name, ()): space[name] for name in scalars & arguments.keys()}
    for name, values in instances(nest, sizes):
        touched = [access for access in accessed(nest, sizes, name, values) if access[0] in scalars]
        reads = {array: memory[array, index] for array, index, is_write in touched if not is_write}
        here = {key: value for key, value in space.items() if key not in scalars} | values | reads
        exec(bodies[name], here)
        memory |= {(array, index): here[array] for array, index, is_write in touched if is_write}
    space |= {array: value for (array, index), value in memory.items() if not index}
    if not nest.epilogue:
        return None
    returned = ast.parse(nest.epilogue[0]).body[0]
    assert isinstance(returned, ast.Return)
    return eval(ast.unparse(returned).removeprefix("return "), space)


def accessed(nest: Nest, sizes: Mapping[str, int], name: str, values: Mapping[str, int]) -> list[tuple[str, Any, bool]]:
    """The elements that one iteration may touch according to the nest's accesses: (array, index, is_write)."""
    words = {**sizes, **values, "floor": np.floor, "min": min, "max": max}

    def places(array: str, dimension: int, subscript: str) -> range:
        if subscript == ANYWHERE:
            return range(int(eval(_python(nest.array(array).shape[dimension]), {}, dict(words))))
        place = int(eval(_python(subscript), {}, dict(words)))
        return range(place, place + 1)

    return [
        (access.array, index, access.is_write)
        for access in nest.statement(name).accesses
        for index in product(*(places(access.array, k, s) for k, s in enumerate(access.subscripts)))
    ]


def _python(expression: str) -> str:
    return expression.replace(" mod ", " % ")
