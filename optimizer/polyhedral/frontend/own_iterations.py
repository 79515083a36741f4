"""Temporaries of which each iteration of the loops around them could have its own.

    for i: (for j: d[j] = X[i, j] - m; for j: Y[i, j] = d[j] * s)        d[i, j]: each i writes what it reads

It is one array for all iterations in the source, which would keep them in order. What a temporary holds between them
matters only if one reads what another has written; isl's relations say whether one does (array expansion: P. Feautrier,
"Array expansion", 1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from optimizer.polyhedral.contraction import accesses_of
from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.order import instance_tuple


def with_own_elements(nest: Nest, scalars: Sequence[str]) -> Nest:
    """The nest in which each of these scalars, which have an element for each iteration of some loops, has one for each
    of those of the loops around all its uses as well, from the outermost one in, as far as that changes nothing."""
    model = Model(nest)
    for scalar in scalars:
        try:
            with operation_limit():
                outer = _own_loops(model, scalar)
        except isl.Error:
            continue
        if outer:
            statements = tuple(_expanded(statement, scalar, outer) for statement in nest.statements)
            nest = replace(nest, statements=statements)
    return nest


def _own_loops(model: Model, scalar: str) -> tuple[str, ...]:
    """The outermost loops that all uses are in, in each iteration of which every read sees a write of that one."""
    using = [s for s in model.nest.statements if accesses_of(model.nest, s.name, scalar)]
    shared = _in_common([statement.iterators for statement in using])
    subscripts = [access.subscripts for s in using for access in accesses_of(model.nest, s.name, scalar)]
    while shared and not _is_own(model, using, scalar, len(shared)):
        shared = shared[:-1]
    # Loops that all subscripts begin with tell the elements apart already.
    return () if all(each[: len(shared)] == shared for each in subscripts) else shared


def _is_own(model: Model, using: Sequence[Statement], scalar: str, depth: int) -> bool:
    """Whether each read of an element comes after a write of it in the same iteration of so many outermost loops."""
    order = model.original_order
    places = reduce(isl.UnionMap.union, [_place(model, statement, depth) for statement in using])
    together = places.apply_range(places.reverse())
    writes = [
        model.access_relation(statement, access)
        for statement in using
        for access in accesses_of(model.nest, statement.name, scalar)
        if access.is_write
    ]
    written = reduce(isl.UnionMap.union, writes)
    for statement in using:
        own = order.intersect_domain(isl.UnionSet.from_set(model.domains[statement.name]))
        before = own.lex_gt_union_map(order).intersect(together)
        for access in accesses_of(model.nest, statement.name, scalar):
            if not access.is_write:
                reads = model.access_relation(statement, access)
                seen = reads.apply_range(written.reverse()).intersect(before)
                if not reads.domain().is_subset(seen.domain()):
                    return False
    return True


def _place(model: Model, statement: Statement, depth: int) -> isl.UnionMap:
    """From the iterations of a statement to those of the outermost loops around it."""
    place = ", ".join(statement.iterators[:depth])
    parameters = ", ".join(model.nest.parameters)
    return isl.UnionMap(
        f"[{parameters}] -> {{ {instance_tuple(model.nest, statement.name)} -> [{place}] }}"
    ).intersect_domain(model.domain)


def _in_common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all of them begin with."""
    shortest = min(paths, key=len)
    same = [all(path[k] == name for path in paths) for k, name in enumerate(shortest)]
    return shortest[: [*same, False].index(False)]


def _expanded(statement: Statement, scalar: str, outer: tuple[str, ...]) -> Statement:
    accesses = tuple(
        replace(access, subscripts=(*outer, *access.subscripts)) if access.array == scalar else access
        for access in statement.accesses
    )
    return replace(statement, accesses=accesses)
