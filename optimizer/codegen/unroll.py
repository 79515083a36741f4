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
    number,
    variable,
)
from optimizer.codegen.loop_ast import Bind, Block, For, If, LoopNode, block_of, calls, is_innermost, substitute_names
from optimizer.codegen.loop_parts import without_choices
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
            inside = taken | {node.iterator}
            return without_choices(replace(node, body=_write_out(node.body, inside), unroll=1), inside)
        case _:
            return node


def _unrolled(loop: For, taken: AbstractSet[str]) -> LoopNode:
    rolled = replace(loop, unroll=1)
    trips = most_trips(loop)
    if trips is not None and trips <= (loop.unroll or FULL_UNROLL_LIMIT):
        first = _start_of(loop, trips)
        copies = _copies(loop, first, trips)
        is_full = _runs_whole(loop, first, trips)
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


def _start_of(loop: For, trips: int) -> Affine:
    """The start that is such a constant away from a stop that there are at most that many iterations."""
    spans = ((start, stop - start) for start, stop in _bounds(loop))
    return next(start for start, span in spans if not span.terms and -(-span.constant // loop.step) <= trips)


def _runs_whole(loop: For, first: Affine, trips: int) -> AllOf:
    """Whether the loop begins at `first` and has that many iterations."""
    last = first + number((trips - 1) * loop.step)
    no_later, before = Relation.LESS_EQUAL, Relation.LESS
    if loop.step < 0:
        no_later, before = Relation.GREATER_EQUAL, Relation.GREATER
    starts, stops = (dict.fromkeys(each) for each in zip(*_bounds(loop), strict=True))
    begins = (Comparison(start, no_later, first) for start in starts if (start - first).terms)
    reaches = (Comparison(last, before, stop) for stop in stops if (stop - last).terms)
    return AllOf((*begins, *reaches))


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
