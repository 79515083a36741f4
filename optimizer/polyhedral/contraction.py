"""How much memory a temporary needs in the finished order of a schedule: array contraction.

In the model a temporary may have elements of its own for each iteration of the loops around it. Where an iteration of
some loops of the schedule uses all of an element, from its first write to its last read, the next one can have the same
memory: the subscripts that such an iteration determines are left out (G. Gao, R. Olsen, V. Sarkar and R. Thekkath,
"Collective loop fusion for array contraction", 1992). Where they are determined by a parallel loop, each of its
iterations needs memory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.nest import Access, Array, Nest, Role
from optimizer.polyhedral.order import TimedLeaf, instance_tuple, relation_text, timed_leaves
from optimizer.polyhedral.tree import Node, loops


@dataclass(frozen=True, slots=True)
class Contraction:
    """What of an array's subscripts needs no memory in a schedule."""

    left_out: tuple[int, ...]
    """The dimensions that all uses at one time have in common."""
    owner: str
    """The parallel loop each of whose iterations has its own memory; empty if there is none."""


def is_temporary(nest: Nest, array: Array) -> bool:
    """Whether nothing but the statements that use an array knows what it holds, before and after, and each of them is
    known to use one element."""
    if any(statement.opaque and accesses_of(nest, statement.name, array.name) for statement in nest.statements):
        return False
    return not array.returned and (array.role is Role.SCALAR or (array.role is Role.LOCAL and array.fill == "empty"))


def contraction(nest: Nest, tree: Node, array: Array, dimensions: int) -> Contraction:
    """Which of the first subscripts of an array a schedule needs no memory for. Raises isl.Error where isl gives up."""
    using = tuple(timed for timed in timed_leaves(tree) if accesses_of(nest, timed.leaf.statement, array.name))
    around = levels_around(tree, using)
    elements = elements_of(nest, using, array, slice(None))
    while not elements.reverse().apply_range(times_of(nest, using, len(around))).is_single_valued():
        around.pop()
    owner = next((loop.name for loop in loops(tree) if loop.is_parallel and loop.name in around), "")
    left_out = _determined(nest, using, array, dimensions, len(around))
    if owner and _determined(nest, using, array, dimensions, around.index(owner)) == left_out:
        owner = ""
    return Contraction(left_out, owner)


def accesses_of(nest: Nest, statement: str, array: str) -> list[Access]:
    return [access for access in nest.statement(statement).accesses if access.array == array]


def _determined(nest: Nest, using: tuple[TimedLeaf, ...], array: Array, dimensions: int, depth: int) -> tuple[int, ...]:
    """The dimensions among the first ones whose subscripts the first entries of timestamps determine."""
    times = times_of(nest, using, depth)
    subscripts = [elements_of(nest, using, array, slice(k, k + 1)) for k in range(dimensions)]
    return tuple(k for k, values in enumerate(subscripts) if times.reverse().apply_range(values).is_single_valued())


def levels_around(tree: Node, using: Sequence[TimedLeaf]) -> list[str | None]:
    """The entries of timestamps, outermost first, that all of the leaves have in common, loops or None for positions.

    What runs at once, as lanes or written out in a register tile, ends them.
    """
    at_once = {loop.name for loop in loops(tree) if loop.vector != 1 or loop.unroll == 0}
    found: list[str | None] = []
    for levels, times in zip(
        zip(*(timed.levels for timed in using), strict=False),
        zip(*(timed.time for timed in using), strict=False),
        strict=True,
    ):
        is_same = len(set(levels)) == 1 and (levels[0] is not None or len(set(times)) == 1)
        if not is_same or levels[0] in at_once:
            break
        found.append(levels[0])
    return found


def times_of(nest: Nest, using: tuple[TimedLeaf, ...], depth: int) -> isl.UnionMap:
    return _in_domains(nest, relation_text(nest, using, slice(depth)))


def elements_of(nest: Nest, using: Sequence[TimedLeaf], array: Array, dimensions: slice) -> isl.UnionMap:
    """From iterations to some subscripts of the elements that they use."""
    found = [
        f"{instance_tuple(nest, name)} -> [{', '.join(f'({text})' for text in access.subscripts[dimensions])}]"
        for name in dict.fromkeys(timed.leaf.statement for timed in using)
        for access in accesses_of(nest, name, array.name)
    ]
    return _in_domains(nest, f"[{', '.join(nest.parameters)}] -> {{ {'; '.join(dict.fromkeys(found))} }}")


def _in_domains(nest: Nest, relation: str) -> isl.UnionMap:
    domain = isl.UnionSet("{ }")
    for statement in nest.statements:
        domain = domain.union(isl.UnionSet(statement.domain))
    return isl.UnionMap(relation).intersect_domain(domain).intersect_params(isl.Set(nest.context))
