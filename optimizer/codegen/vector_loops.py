"""Makes vector code of loops that are marked `vector`, in terms of the loop AST: full vectors first, then the rest.

Where it pays, one vector before them lets them begin at multiples of their size in memory. That one and the rest are
vectors of which only some lanes run; where a statement has no such form, the rest is a plain loop.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from optimizer.codegen.affine import names_in_condition, number, smallest, variable
from optimizer.codegen.alignment import boundary_of
from optimizer.codegen.lane_results import accumulators_of, has_iterations, with_partial
from optimizer.codegen.loop_ast import (
    Bind,
    Block,
    For,
    If,
    LoopNode,
    Mask,
    Reducing,
    block_of,
    calls,
    substitute_names,
    walk,
)
from optimizer.codegen.naming import free_name
from optimizer.codegen.unroll import main_and_rest, most_trips
from optimizer.codegen.vector_text import VectorText
from optimizer.codegen.vector_unit import host_lanes
from optimizer.codegen.vector_values import NoVectorForm
from optimizer.errors import CandidateError


def write_vectors(node: LoopNode, text: VectorText, taken: AbstractSet[str]) -> LoopNode:
    """The same loops, those that are marked `vector` as a main loop of full vectors and the rest; names in `taken` are
    not free.

    Where one loop of the schedule became several loops and some of them have no vector code, their notes say why.
    Raises CandidateError when none of them has.
    """
    written = _write(node, text, taken)
    loops = [loop for loop in walk(written) if isinstance(loop, For)]
    done = {loop.name for loop in loops if loop.vector != 1}
    for loop in loops:
        if loop.note and loop.name not in done:
            raise CandidateError(f"{loop.name} cannot be vectorized: {loop.note}")
    return written


def _write(node: LoopNode, text: VectorText, taken: AbstractSet[str]) -> LoopNode:
    match node:
        case Block(parts):
            return block_of(*(_write(part, text, taken) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else _write(otherwise, text, taken)
            return If(condition, _write(then, text, taken), other)
        case For() if node.vector == 1:
            return replace(node, body=_write(node.body, text, taken | {node.iterator}))
        case For():
            try:
                return _vectors(node, text, taken)
            except NoVectorForm as obstacle:
                return replace(node, vector=1, note=str(obstacle))
        case _:
            return node


def _vectors(loop: For, text: VectorText, taken: AbstractSet[str]) -> LoopNode:
    """Raises NoVectorForm."""
    _check_shape(loop)
    lanes = loop.vector or host_lanes(text.nest, loop)
    trips = most_trips(loop)
    if trips is not None and trips < lanes:
        raise NoVectorForm(f"it has at most {trips} iterations, a vector {lanes} lanes")
    accumulators = accumulators_of(loop, lanes, text, taken)
    main = replace(loop, vector=lanes, accumulators=accumulators)
    iterator = variable(loop.iterator)
    mask = Mask(iterator, iterator, loop.stop)
    if loop.step < 0:
        # Lanes do not depend on each other, so the last iteration of a vector may be its first lane.
        first = iterator + number(1 - lanes)
        main = replace(main, body=substitute_names(loop.body, {loop.iterator: first}))
        mask = Mask(first, loop.stop + number(1), iterator + number(1))
    _check_form(main, text)
    rest = replace(main, step=lanes * loop.step, mask=mask)
    rest_name = free_name(f"{loop.iterator}_rest", taken)
    try:
        _check_form(rest, text)
    except NoVectorForm:
        rest = replace(loop, vector=1)
    if accumulators:
        count = len(accumulators[0].names)
        main = replace(main, body=_copies(main, lanes, count))
        parts = main_and_rest(main, lanes * count, rest, rest_name)
        return If(has_iterations(loop), Reducing(parts))
    boundary = boundary_of(main, free_name(f"{loop.iterator}_aligned", taken), text)
    if rest.mask is None or boundary is None:
        return main_and_rest(main, lanes, rest, rest_name)
    aligned = variable(boundary.name)
    before = smallest(aligned, loop.stop)
    first = replace(rest, stop=before, mask=replace(mask, last=before))
    return block_of(boundary, first, main_and_rest(replace(main, start=aligned), lanes, rest, rest_name))


def _copies(loop: For, lanes: int, count: int) -> LoopNode:
    """The body for that many vectors one after the other, each with partial results of its own."""
    places = (variable(loop.iterator) + number(copy * lanes * loop.step) for copy in range(count))
    bodies = (substitute_names(loop.body, {loop.iterator: place}) for place in places)
    return block_of(*(with_partial(body, copy) for copy, body in enumerate(bodies)))


def _check_form(loop: For, text: VectorText) -> None:
    """Raises NoVectorForm."""
    axis = text.axis(loop)
    for call in calls(loop.body):
        text.check(call, axis)


def _check_shape(loop: For) -> None:
    if abs(loop.step) != 1:
        raise NoVectorForm(f"its iterations are {abs(loop.step)} apart")
    for node in walk(loop.body):
        match node:
            case For() | Bind():
                raise NoVectorForm("a loop is inside it")
            case If(condition) if loop.iterator in names_in_condition(condition):
                raise NoVectorForm("what it runs differs from iteration to iteration")
            case _:
                pass
