"""Writes out the copies of unrolled loops, in terms of the loop AST so that every back end gets them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    Comparison,
    Maximum,
    Minimum,
    Relation,
    alternatives,
    floor_division,
    largest,
    names_in_condition,
    number,
    variable,
)
from optimizer.codegen.loop_ast import Bind, Block, For, If, LoopNode, block_of, calls, is_innermost, substitute_names
from optimizer.codegen.naming import free_name
from optimizer.errors import CandidateError

FULL_UNROLL_LIMIT = 64
"""The most iterations that `unroll` without a factor writes out."""

STATEMENT_LIMIT = 4000
"""The most statement instances in one function: Numba's compile time grows with them."""


def write_out_unrolled(node: LoopNode, taken: AbstractSet[str]) -> LoopNode:
    """The same loops with every innermost loop that is marked `unroll` written out; names in `taken` are not free.

    Raises CandidateError when the code gets too large.
    """
    written = _write_out(node, taken)
    if (size := sum(1 for _ in calls(written))) > STATEMENT_LIMIT:
        raise CandidateError(f"unrolling writes {size} statements; at most {STATEMENT_LIMIT} are allowed")
    return written


def _write_out(node: LoopNode, taken: AbstractSet[str]) -> LoopNode:
    match node:
        case Block(parts):
            return block_of(*(_write_out(part, taken) for part in parts))
        case If(condition, then, otherwise):
            return If(condition, _write_out(then, taken), None if otherwise is None else _write_out(otherwise, taken))
        case For():
            if is_innermost(node) and node.unroll != 1 and not node.is_parallel:
                return _unrolled(node, taken)
            return _hoisted(replace(node, body=_write_out(node.body, taken | {node.iterator}), unroll=1))
        case _:
            return node


def _hoisted(loop: For) -> LoopNode:
    """A choice between two bodies that is the same in all iterations is made once, before the loop."""
    match loop.body:
        case If(condition, then, otherwise) if otherwise is not None and not loop.is_parallel:
            if loop.iterator not in names_in_condition(condition):
                return If(condition, replace(loop, body=then), replace(loop, body=otherwise))
        case _:
            pass
    return loop


def _unrolled(loop: For, taken: AbstractSet[str]) -> LoopNode:
    rolled = replace(loop, unroll=1)
    trips = most_trips(loop)
    if trips is not None and trips <= (loop.unroll or FULL_UNROLL_LIMIT):
        copies = _copies(loop, loop.start, trips)
        is_full = _reaches(loop, trips)
        return If(is_full, copies, rolled) if is_full.conditions else copies
    if loop.unroll == 0:
        raise CandidateError(f"unroll({loop.name}) needs a loop of at most {FULL_UNROLL_LIMIT} iterations")
    copies = _copies(loop, variable(loop.iterator), loop.unroll)
    return main_and_rest(replace(rolled, body=copies), loop.unroll, rolled, free_name(f"{loop.iterator}_rest", taken))


def _bounds(loop: For) -> list[tuple[Affine, Affine]]:
    """Pairs of a start and a stop; the loop runs as long as it is within all of them."""
    upper, lower = (Minimum, Maximum) if loop.step > 0 else (Maximum, Minimum)
    starts, stops = alternatives(loop.start, lower), alternatives(loop.stop, upper)
    return [(start, stop) for start in starts for stop in stops]


def most_trips(loop: For) -> int | None:
    """An upper limit of the number of iterations, if some pair of bounds is a constant apart."""
    spans = [stop - start for start, stop in _bounds(loop)]
    trips = [max(0, -(-span.constant // loop.step)) for span in spans if not span.terms]
    return min(trips, default=None)


def _reaches(loop: For, trips: int) -> AllOf:
    """Whether the loop has that many iterations: all pairs of bounds hold for the last of them."""
    relation = Relation.LESS if loop.step > 0 else Relation.GREATER
    last = (trips - 1) * loop.step
    pairs = ((start + number(last), stop) for start, stop in _bounds(loop))
    return AllOf(tuple(Comparison(value, relation, stop) for value, stop in pairs if (stop - value).terms))


def _copies(loop: For, first: Affine, count: int) -> LoopNode:
    at = (first + number(copy * loop.step) for copy in range(count))
    return block_of(*(substitute_names(loop.body, {loop.iterator: value}) for value in at))


def main_and_rest(main: For, factor: int, rest: For, name: str) -> LoopNode:
    """The loop `main` in steps of `factor` of its iterations; from the iteration called `name` on, the loop `rest`."""
    stride = factor * main.step
    span = largest((main.stop - main.start).times(1 if stride > 0 else -1), number(0))
    whole = floor_division(span, abs(stride)).times(stride)
    full = replace(main, stop=variable(name), step=stride)
    return block_of(Bind(name, main.start + whole), full, replace(rest, start=variable(name)))
