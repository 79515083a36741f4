"""Which statements of a vector loop add to accumulators, vectors of partial results, and the loop's copies that have
accumulators of their own: an addition need not wait for the one before it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from optimizer.codegen.affine import Affine, AllOf, Comparison, Maximum, Minimum, Relation, alternatives, names_in
from optimizer.codegen.loop_ast import Accumulator, Block, Call, For, If, LoopNode, calls
from optimizer.codegen.naming import free_name
from optimizer.codegen.unroll import most_trips
from optimizer.codegen.vector_text import VectorText
from optimizer.polyhedral.reductions import access_of, free_reduction

MOST_PARTIALS = 4
"""Of one element, where the schedule does not say how many: additions take about four cycles, and two start in one,
but there is more to do than to add."""
MOST_ACCUMULATORS = 8
"""Of one loop, then: half of the registers of most machines."""


def accumulators_of(loop: For, lanes: int, text: VectorText, taken: AbstractSet[str]) -> tuple[Accumulator, ...]:
    """Those of the elements that a loop marked by `reduce` reduces and does not move; raises NoVectorForm."""
    if loop.partials == 1:
        return ()
    found: dict[tuple[str, tuple[Affine, ...]], Call] = {}
    for call in calls(loop.body):
        statement = text.nest.statement(call.statement)
        reduction = free_reduction(text.nest, statement)
        if reduction is not None:
            values = dict(zip(statement.iterators, call.arguments, strict=True))
            subscripts = text.subscripts_of(access_of(reduction), values)
            if not any(loop.iterator in names_in(subscript) for subscript in subscripts):
                found.setdefault((reduction.array, subscripts), call)
    most = loop.partials or max(1, min(MOST_PARTIALS, MOST_ACCUMULATORS // max(1, len(found))))
    trips = most_trips(loop)
    count = most if trips is None else max(1, min(most, trips // lanes))
    iterators = {name for statement in text.nest.statements for name in statement.iterators}
    names, accumulators = {*taken, *iterators}, list[Accumulator]()
    for (array, subscripts), call in found.items():
        own: list[str] = []
        for _ in range(count):
            own.append(free_name(f"{array}_lanes", names))
            names.add(own[-1])
        accumulators.append(Accumulator(call, array, subscripts, tuple(own)))
    return tuple(accumulators)


def with_partial(node: LoopNode, partial: int) -> LoopNode:
    """The body of a loop whose statements add to that one of the partial results."""
    match node:
        case Call():
            return replace(node, partial=partial)
        case Block(parts):
            return Block(tuple(with_partial(part, partial) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else with_partial(otherwise, partial)
            return If(condition, with_partial(then, partial), other)
        case _:
            return node


def has_iterations(loop: For) -> AllOf:
    """The condition that a loop runs at all."""
    upper, lower = (Minimum, Maximum) if loop.step > 0 else (Maximum, Minimum)
    before = Relation.LESS if loop.step > 0 else Relation.GREATER
    starts, stops = alternatives(loop.start, lower), alternatives(loop.stop, upper)
    return AllOf(tuple(Comparison(start, before, stop) for start in starts for stop in stops))
