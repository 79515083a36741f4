"""Loops whose body chooses between two ways to run, cut where the choice changes: no iteration has to choose."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    Comparison,
    Condition,
    FloorDivision,
    Relation,
    Variable,
    floor_division,
    largest,
    names_in,
    names_in_condition,
    number,
    smallest,
    variable,
)
from optimizer.codegen.loop_ast import Bind, For, If, LoopNode, block_of, walk
from optimizer.codegen.naming import free_name


def without_choices(loop: For, taken: AbstractSet[str]) -> LoopNode:
    """The loop; names in `taken` are not free.

    What all iterations choose alike is chosen before the loop. Where the others choose the first way in a row, and that
    way is plain statements, the loop becomes three: up to that row, the row, and after it.
    """
    match loop.body:
        case If(condition, then, otherwise) if otherwise is not None and not loop.is_parallel:
            conditions = condition.conditions if isinstance(condition, AllOf) else (condition,)
            own = [each for each in conditions if loop.iterator in names_in_condition(each)]
            alike = tuple(each for each in conditions if each not in own)
            inside = replace(loop, body=then) if not own else _in_three(loop, own, then, otherwise, taken)
            if inside is None or not (alike or own):
                return loop
            if not alike:
                return inside
            return If(alike[0] if len(alike) == 1 else AllOf(alike), inside, replace(loop, body=otherwise))
        case _:
            return loop


def _in_three(
    loop: For, conditions: Iterable[Condition], then: LoopNode, otherwise: LoopNode, taken: AbstractSet[str]
) -> LoopNode | None:
    if loop.step != 1 or any(isinstance(node, For) for node in walk(then)):
        return None
    row = _row(conditions, loop.iterator)
    if row is None:
        return None
    first, last = (free_name(f"{loop.iterator}_{end}", taken) for end in ("full", "full_stop"))
    begin, end = variable(first), variable(last)
    return block_of(
        Bind(first, smallest(largest(loop.start, *row.starts), loop.stop)),
        Bind(last, largest(begin, smallest(loop.stop, *row.stops))),
        replace(loop, stop=begin, body=otherwise),
        replace(loop, start=begin, stop=end, body=then),
        replace(loop, start=end, body=otherwise),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The whole numbers from the largest start up to, not including, the smallest stop."""

    starts: tuple[Affine, ...] = ()
    stops: tuple[Affine, ...] = ()


def _row(conditions: Iterable[Condition], name: str) -> _Row | None:
    """The values of a name for which all conditions hold; None where that is not said by bounds."""
    starts: list[Affine] = []
    stops: list[Affine] = []
    for condition in conditions:
        match condition:
            case Comparison(left, Relation.LESS, right):
                surplus = right - left + number(-1)
            case Comparison(left, Relation.LESS_EQUAL, right):
                surplus = right - left
            case Comparison(left, Relation.GREATER, right):
                surplus = left - right + number(-1)
            case Comparison(left, Relation.GREATER_EQUAL, right):
                surplus = left - right
            case _:
                return None
        found = _row_where_not_negative(surplus, name)
        if found is None:
            return None
        starts += found.starts
        stops += found.stops
    return _Row(tuple(dict.fromkeys(starts)), tuple(dict.fromkeys(stops)))


def _row_where_not_negative(value: Affine, name: str) -> _Row | None:
    own = [(term, factor) for term, factor in value.terms if name in names_in(Affine(((term, 1),)))]
    if len(own) != 1:
        return None
    ((term, factor),) = own
    rest = value - Affine(((term, factor),))
    bound = floor_division(rest, abs(factor))
    match term:
        case Variable() if factor > 0:
            return _Row(starts=(bound.times(-1),))
        case Variable():
            return _Row(stops=(bound + number(1),))
        case FloorDivision(operand, divisor) if factor > 0:
            return _row_where_not_negative(operand + bound.times(divisor), name)
        case FloorDivision(operand, divisor):
            return _row_where_not_negative((bound + number(1)).times(divisor) + number(-1) - operand, name)
        case _:
            return None
