"""Scalars of which a schedule has many at a time: arrays over the loops that it runs in between, no others.

for i: (for j: d = X[i, j] - m; for j: Y[i, j] = d * s)        d becomes d[j], and not d[i, j]
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl
import numpy as np

from optimizer.codegen.function_text import names_of
from optimizer.codegen.scalars import elements_of, is_one_at_a_time
from optimizer.codegen.statement_text import affine_of, parsed
from optimizer.errors import CandidateError
from optimizer.polyhedral.affine_pieces import as_affine
from optimizer.polyhedral.contraction import accesses_of, contraction
from optimizer.polyhedral.footprint import count_elements
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement
from optimizer.polyhedral.steps.affine import Affine
from optimizer.polyhedral.tree import Node


def scalar_in_rows(nest: Nest, tree: Node, scalar: Array) -> tuple[Nest, str]:
    """The nest with a local array in the place of a scalar, and the parallel loop each of whose iterations has its own.

    The nest as it is, where one variable is enough, or where the array would have as many elements as the scalar has.
    Raises isl.Error where isl gives up.
    """
    using = [statement for statement in nest.statements if accesses_of(nest, statement.name, scalar.name)]
    subscripts = [access.subscripts for s in using for access in accesses_of(nest, s.name, scalar.name)]
    rank = len(subscripts[0]) if subscripts else 0
    if rank < 2 or scalar.name in names_of(*nest.epilogue, *nest.prologue) or is_one_at_a_time(nest, tree, scalar):
        return nest, ""
    found = contraction(nest, tree, scalar, rank)
    kept = [k for k in range(rank) if k not in found.left_out]
    if not 0 < len(kept) < rank:
        return nest, ""
    box = [_range(nest, using, scalar, dimension) for dimension in kept]
    known = [each for each in box if each is not None]
    if len(known) < len(box) or any(affine_of(parsed(each[k]), {}) is None for each in subscripts for k in kept):
        return nest, ""

    def place(access: Access) -> tuple[str, ...]:
        lows = (low for low, _ in known)
        texts = (access.subscripts[k] for k in kept)
        return tuple(text if low == Affine() else f"{text} - ({low})" for text, low in zip(texts, lows, strict=True))

    array = replace(scalar, role=Role.LOCAL, shape=tuple(str(extent) for _, extent in known), fill="empty")
    arrays = tuple(array if each == scalar else each for each in nest.arrays)
    statements = tuple(_in_array(s, scalar.name, place) if s in using else s for s in nest.statements)
    return replace(nest, arrays=arrays, statements=statements), found.owner


def scalar_bytes(nest: Nest, tree: Node, sizes: Mapping[str, int]) -> dict[str, int]:
    """What the scalars take of which a schedule has many at a time, whose memory cannot be smaller.

    Raises CandidateError where isl gives up.
    """
    found: dict[str, int] = {}
    fixed = " and ".join(f"{name} = {sizes[name]}" for name in nest.parameters) or "true"
    here = isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {fixed} }}")
    try:
        with operation_limit():
            for scalar in nest.arrays:
                using = [s for s in nest.statements if accesses_of(nest, s.name, scalar.name)]
                if scalar.role is not Role.SCALAR or not using:
                    continue
                ranks = {len(access.subscripts) for s in using for access in accesses_of(nest, s.name, scalar.name)}
                if ranks & {0, 1} or is_one_at_a_time(nest, tree, scalar):
                    continue
                parts = [elements_of(nest, statement, scalar.name).range() for statement in using]
                box = isl.Set.from_union_set(reduce(isl.UnionSet.union, parts)).intersect_params(here)
                found[scalar.name] = np.dtype(scalar.dtype).itemsize * count_elements([box])
    except isl.Error as error:
        raise CandidateError(f"code generation gave up: {error}") from error
    return found


def _range(nest: Nest, using: Sequence[Statement], scalar: Array, dimension: int) -> tuple[Affine, Affine] | None:
    """The least subscript of a dimension and how many there are; None where sizes decide which expression that is."""
    parts = [elements_of(nest, statement, scalar.name).range() for statement in using]
    box = isl.Set.from_union_set(reduce(isl.UnionSet.union, parts)).intersect_params(isl.Set(nest.context))
    if box.is_empty():
        return None
    there = box.params()
    low, high = (as_affine(bound.gist(there)) for bound in (box.dim_min(dimension), box.dim_max(dimension)))
    return None if low is None or high is None else (low, high + low.scaled(-1) + Affine(constant=1))


def _in_array(statement: Statement, scalar: str, place: Callable[[Access], tuple[str, ...]]) -> Statement:
    access = next(access for access in statement.accesses if access.array == scalar)
    index = ast.unparse(parsed(f"{scalar}[{', '.join(place(access))}]"))
    accesses = tuple(replace(a, subscripts=place(a)) if a.array == scalar else a for a in statement.accesses)
    body = _InArray(scalar, index).visit(ast.parse(statement.body))
    return replace(statement, accesses=accesses, body=ast.unparse(body))


class _InArray(ast.NodeTransformer):
    def __init__(self, scalar: str, element: str) -> None:
        self.scalar, self.element = scalar, element

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != self.scalar:
            return node
        (expression,) = ast.parse(self.element).body
        assert isinstance(expression, ast.Expr)
        assert isinstance(expression.value, ast.Subscript)
        expression.value.ctx = node.ctx
        return expression.value
