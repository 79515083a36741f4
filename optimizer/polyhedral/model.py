"""The isl side of a nest: its iterations, its accesses and every pair of iterations that conflict."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import islpy as isl

from optimizer.polyhedral.conflicts import Touched, conflicts_of, union
from optimizer.polyhedral.nest import Access, Nest, Statement
from optimizer.polyhedral.order import order_map
from optimizer.polyhedral.reductions import access_of, free_reduction
from optimizer.polyhedral.tree import Private

OPERATION_LIMIT = 2_000_000
"""isl operations one query may take: deterministic, unlike a time limit. Usual queries take milliseconds, the limit ten
seconds and more."""


@contextmanager
def operation_limit(limit: int = OPERATION_LIMIT) -> Generator[None]:
    """Within it, isl raises `isl.Error` once its operations exceed the limit."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(limit)
    try:
        yield
    finally:
        context.set_max_operations(0)
        context.reset_operations()


def model_of(nest: Nest) -> Model:
    """The model of a nest; those of the few nests that were asked for last are kept."""
    model = _recent.pop(id(nest), None) or Model(nest)
    while len(_recent) >= 8:
        del _recent[next(iter(_recent))]
    _recent[id(nest)] = model
    return model


class Model:
    """isl objects of one nest, each computed once. They stay in this process: islpy contexts are not thread-safe."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.privatized: dict[Private, Model] = {}
        """Those in which an array of this one is private; see `private_arrays`."""
        self.remembered: dict[Hashable, Any] = {}
        """Answers by their questions: what many trees of one nest have in common is asked once."""
        self.context = isl.Set(nest.context)
        self.domains = {s.name: isl.Set(s.domain).intersect_params(self.context) for s in nest.statements}
        self.domain = isl.UnionSet(f"[{', '.join(nest.parameters)}] -> {{ }}")
        for domain in self.domains.values():
            self.domain = self.domain.union(isl.UnionSet.from_set(domain))

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Whether the kernel may run at these sizes: no subscript leaves its array."""
        fixed = " and ".join(f"{name} = {sizes[name]}" for name in self.nest.parameters)
        here = isl.Set(f"[{', '.join(self.nest.parameters)}] -> {{ : {fixed} }}")
        return here.is_subset(self.context)

    def access_relation(self, statement: Statement, access: Access) -> isl.UnionMap:
        """The relation from the iterations of a statement to the elements that one of its accesses may touch."""
        relation = self._relation(statement, (access,))
        if access.is_exact:
            return relation
        places = [f"at{k}" for k in range(len(access.subscripts))]
        extents = zip(places, self.nest.array(access.array).shape, strict=True)
        inside = " and ".join(f"0 <= {place} < {extent}" for place, extent in extents)
        elements = f"{{ {access.array}[{', '.join(places)}] : {inside} }}"
        return relation.intersect_range(isl.UnionSet(f"[{', '.join(self.nest.parameters)}] -> {elements}"))

    def _relation(self, statement: Statement, accesses: Sequence[Access]) -> isl.UnionMap:
        iteration = f"{statement.name}[{', '.join(statement.iterators)}]"
        terms = (f"{iteration} -> {access.array}[{', '.join(access.subscripts)}]" for access in accesses)
        text = f"[{', '.join(self.nest.parameters)}] -> {{ {'; '.join(terms)} }}"
        return isl.UnionMap(text).intersect_domain(isl.UnionSet.from_set(self.domains[statement.name]))

    def _all_of(self, statement: Statement, *, is_write: bool) -> isl.UnionMap:
        accesses = [access for access in statement.accesses if access.is_write is is_write]
        # One text is read sooner than one for each.
        exact = self._relation(statement, [access for access in accesses if access.is_exact])
        others = [self.access_relation(statement, access) for access in accesses if not access.is_exact]
        return union([exact, *others], exact)

    @cached_property
    def touched(self) -> dict[str, Touched]:
        """By the names of the statements."""
        return {
            statement.name: Touched(self._all_of(statement, is_write=False), self._all_of(statement, is_write=True))
            for statement in self.nest.statements
        }

    @cached_property
    def reads(self) -> isl.UnionMap:
        return union([each.reads for each in self.touched.values()], self._nothing)

    @cached_property
    def writes(self) -> isl.UnionMap:
        return union([each.writes for each in self.touched.values()], self._nothing)

    @property
    def _nothing(self) -> isl.UnionMap:
        return isl.UnionMap.empty(self.domain.get_space())

    @cached_property
    def original_order(self) -> isl.UnionMap:
        return order_map(self.nest, self.nest.tree)

    @cached_property
    def conflicts(self) -> isl.UnionMap:
        """Every pair (source, sink) of iterations that touch one element, at least one of them writing (RAW, WAR and
        WAW, transitively redundant ones included), the source before the sink in the original order."""
        return conflicts_of(self.nest, self.touched, self.domain)

    @cached_property
    def conflict_maps(self) -> tuple[isl.Map, ...]:
        """`conflicts`, one relation for each pair of statements."""
        maps = self.conflicts.get_map_list()
        return tuple(maps.get_at(k) for k in range(maps.n_map()))

    @cached_property
    def free_pairs(self) -> dict[tuple[str, str], isl.Map]:
        """Of `conflicts`, by the statements of source and sink, those whose order is free: between reductions of one
        operator (see `reductions`) on the same element that conflict over nothing else."""
        found = {statement.name: free_reduction(self.nest, statement) for statement in self.nest.statements}
        reductions = {name: reduction for name, reduction in found.items() if reduction is not None}
        elements, elsewhere = {}, {}
        for name, reduction in reductions.items():
            statement, write = self.nest.statement(name), access_of(reduction)
            elements[name] = self.access_relation(statement, write)
            elsewhere[name] = isl.UnionMap("{ }")
            for access in statement.accesses:
                if access.subscripts != write.subscripts:
                    elsewhere[name] = elsewhere[name].union(self.access_relation(statement, access))
        free: dict[tuple[str, str], isl.Map] = {}
        for pairs in self.conflict_maps:
            first, second = str(pairs.get_tuple_name(isl.dim_type.in_)), str(pairs.get_tuple_name(isl.dim_type.out))
            if first in reductions and second in reductions:
                one, other = reductions[first], reductions[second]
                if (one.array, one.operator) == (other.array, other.operator):
                    same = elements[first].apply_range(elements[second].reverse())
                    read = elements[first].apply_range(elsewhere[second].reverse())
                    read = read.union(elsewhere[first].apply_range(elements[second].reverse()))
                    both = isl.UnionMap.from_map(pairs).intersect(same).subtract(read)
                    if not both.is_empty():
                        free[first, second] = isl.Map.from_union_map(both)
        return free


_recent: dict[int, Model] = {}
"""By identity of the nest, which its model keeps alive."""
