"""Which write each read sees, for one array at a time: isl's exact dataflow.

Method: P. Feautrier, "Dataflow analysis of array and scalar references", 1991.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl

from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, sequence_of


def model_of_array(nest: Nest, array: str, without: Collection[str] = ()) -> Model:
    """The model of those statements that touch an array, except the ones named last, and of no other array."""

    def about_array(statement: Statement) -> Statement:
        accesses = () if statement.name in without else statement.accesses
        return replace(statement, accesses=tuple(access for access in accesses if access.array == array))

    statements = tuple(seen for seen in map(about_array, nest.statements) if seen.accesses)
    tree = _with_leaves(nest.tree, {statement.name for statement in statements})
    return Model(replace(nest, statements=statements, tree=tree))


def _with_leaves(node: Node, statements: Collection[str]) -> Node:
    """The tree without the leaves of other statements."""
    match node:
        case Leaf():
            return node if node.statement in statements else Sequence()
        case Loop():
            body = _with_leaves(node.body, statements)
            return body if body == Sequence() else replace(node, body=body)
        case Sequence():
            return sequence_of(*(_with_leaves(part, statements) for part in node.parts))


@dataclass(frozen=True)
class Flow:
    """The values of one array, from the writes to the reads that see them."""

    model: Model
    """That of the array alone."""

    @cached_property
    def _found(self) -> isl.UnionFlow:
        access = isl.UnionAccessInfo.from_sink(self.model.reads)
        access = access.set_must_source(self.model.writes).set_schedule_map(self.model.original_order)
        return access.compute_flow()

    @cached_property
    def pairs(self) -> isl.UnionMap:
        """From iterations that write to those that read what they wrote."""
        return self._found.get_must_dependence()

    @cached_property
    def unwritten(self) -> isl.UnionMap:
        """From iterations that read to the elements to which nothing was written before."""
        return self._found.get_must_no_source()

    @cached_property
    def left(self) -> isl.UnionSet:
        """The iterations that write what some element holds in the end."""
        order = self.model.original_order
        last = self.model.writes.reverse().apply_range(order).lexmax()
        return last.apply_range(order.reverse()).range().intersect(self.model.writes.domain())


def maps_of(union: isl.UnionMap) -> list[isl.Map]:
    """The relations between two tuples each, of which a union consists."""
    maps = union.get_map_list()
    return [maps.get_at(k) for k in range(maps.n_map())]


def sets_of(union: isl.UnionSet) -> list[isl.Set]:
    """The sets of one tuple each, of which a union consists."""
    sets = union.get_set_list()
    return [sets.get_at(k) for k in range(sets.n_set())]
