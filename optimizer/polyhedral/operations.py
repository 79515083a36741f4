"""Which operations of a nest are different ones.

The operands of an operation are constants, arguments by their names, loop variables, elements of arrays as a certain
iteration wrote them or as they were handed in, and other operations on these. Iterations, of one statement or of
several, do the same operation if it has the same operands. isl's exact dataflow says which those are (after P.
Feautrier, "Dataflow analysis of array and scalar references", 1991).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import islpy as isl

from optimizer.polyhedral.evaluation import parts_of
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.operands import OperandReader, Value


def fewest_operations(model: Model) -> Iterator[isl.Set]:
    """Sets of iterations: together they have as many points as there are different operations on elements of arrays,
    whatever the data are.

    Where conditions on data decide what an iteration does, it counts the fewest operations it can get by with, of those
    that it cannot share with any other.
    """
    parts = [part for statement in model.nest.statements for part in parts_of(model, statement)]
    reader = OperandReader(model, parts)
    certain: dict[str, list[Value]] = defaultdict(list)
    uncertain: dict[str, list[Value]] = defaultdict(list)
    for part in parts:
        for text in sorted(part.possible):
            for value in reader.operations(part, text):
                if value.has_element:
                    (certain if value.is_certain else uncertain)[value.form].append(value)
    for group in certain.values():
        yield from _one_for_each(group)
    if uncertain and all(part.outcomes for part in parts):
        unshared = {form for form, group in uncertain.items() if _are_unshared(group, certain[form])}
        for part in parts:
            choices = [[reader.operations(part, text) for text in sorted(outcome)] for outcome in part.outcomes]
            yield from [part.iterations] * min(_count(operations, unshared) for operations in choices)


def _one_for_each(group: Sequence[Value]) -> Iterator[isl.Set]:
    """Iterations, one for each of the different operations of one form."""
    for iterations in _merged(_chosen(group)):
        sets = iterations.coalesce().get_set_list()
        yield from (sets.get_at(k) for k in range(sets.n_set()))


def _chosen(group: Sequence[Value]) -> Iterator[isl.UnionSet]:
    """Of each value the iterations whose operation is not done by one before, or by another value before."""
    first, *others = group
    if not others and first.differs_everywhere:
        yield first.iterations
        return
    yield _first_of_each(first.relation)
    seen = first.relation.range()
    for value in others:
        yield _first_of_each(value.relation.subtract_range(seen))
        seen = seen.union(value.relation.range())


def _merged(chosen: Iterable[isl.UnionSet]) -> list[isl.UnionSet]:
    """The same iterations in fewer sets, whose shapes are simpler to count: an iteration that occurs twice still
    does."""
    merged: list[isl.UnionSet] = []
    for iterations in chosen:
        place = next((k for k, other in enumerate(merged) if other.intersect(iterations).is_empty()), len(merged))
        merged[place : place + 1] = [iterations.union(other) for other in merged[place : place + 1]] or [iterations]
    return merged


def _first_of_each(operands: isl.UnionMap) -> isl.UnionSet:
    """Of the iterations with the same operands the first."""
    return operands.domain() if operands.is_injective() else operands.reverse().lexmin().range()


def _are_unshared(group: Sequence[Value], certain: Sequence[Value]) -> bool:
    """Whether each operation of one form is possible in one iteration only, and none is done in any case."""
    relation = reduce(isl.UnionMap.union, (value.relation for value in group))
    apart = all(relation.range().intersect(value.relation.range()).is_empty() for value in certain)
    return apart and bool(relation.is_injective())


def _count(operations: Sequence[Sequence[Value]], unshared: set[str]) -> int:
    """How many of the operations of an iteration are surely different from each other and those of all others."""
    taken: list[Value] = []
    count = 0
    for values in operations:
        are_own = all(v.has_element and not v.is_certain and v.form in unshared for v in values)
        if values and are_own and not any(v.may_equal(other) for v in values for other in taken):
            taken += values
            count += 1
    return count
