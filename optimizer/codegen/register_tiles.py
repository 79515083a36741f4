"""Keeps in registers what the loop around a register tile accumulates, in terms of the loop AST.

A register tile is a loop around point loops that are written out entirely, the innermost of them as vectors:

    for k: for i (8 of them): for j (3 vectors)      C[i, j] += A[i, k] * B[k, j]

Where a tile is full, what its statements write stays in registers while k runs, and is loaded before and stored after.
That changes nothing exactly if no other access of the loop touches it, which isl proves on the very subscripts and
bounds that are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import product

from optimizer.codegen.affine import (
    Affine,
    AllOf,
    Comparison,
    Maximum,
    Minimum,
    Relation,
    alternatives,
    choice,
    coefficient_of,
    largest,
    names_in,
    number,
    smallest,
    substitute,
    variable,
)
from optimizer.codegen.facts import Facts, between
from optimizer.codegen.loop_ast import (
    Bind,
    Block,
    Call,
    For,
    If,
    LoopNode,
    RegisterTile,
    block_of,
    substitute_names,
    walk,
)
from optimizer.codegen.masked_tiles import masked
from optimizer.codegen.naming import free_name
from optimizer.codegen.point_loops import (
    Element,
    NoRegisterTile,
    Point,
    elements_of,
    from_memory,
    not_empty,
    point_loops,
    point_of,
)
from optimizer.codegen.vector_text import VectorText
from optimizer.codegen.vector_unit import host_lanes
from optimizer.codegen.vector_values import NoVectorForm
from optimizer.errors import CandidateError

STATEMENT_LIMIT = 256
"""The most vector statements of one tile: the compiler's time grows with them, and registers are few."""


def write_register_tiles(node: LoopNode, text: VectorText, taken: AbstractSet[str]) -> LoopNode:
    """The same loops with register tiles in registers, where that is proved to change nothing; names in `taken` are not
    free.

    Raises CandidateError when there is none where the schedule has some.
    """
    reasons: list[str] = []
    written = _write(node, text, taken, Facts.of(text.nest), reasons)
    if reasons and not any(isinstance(inner, RegisterTile) for inner in walk(written)):
        raise CandidateError(f"there is no register tile: {reasons[0]}")
    return written


def _write(node: LoopNode, text: VectorText, taken: AbstractSet[str], facts: Facts, reasons: list[str]) -> LoopNode:
    """`reasons` takes those why a loop runs its tiles from memory."""
    match node:
        case Block(parts):
            return block_of(*(_write(part, text, taken, facts, reasons) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else _write(otherwise, text, taken, facts, reasons)
            return If(condition, _write(then, text, taken, facts.and_that(condition), reasons), other)
        case For(unroll=0) if node.vector != 1:
            reasons.append(f"{node.iterator} is not perfectly nested in the other loops of its tile")
            return replace(node, unroll=1)
        case For():
            points = point_loops(node.body)
            taken, inside = taken | {node.iterator}, facts.and_in(node)
            if not points:
                return replace(node, body=_write(node.body, text, taken, inside, reasons))
            try:
                return _tiled(node, points, text, taken, facts)
            except NoRegisterTile as reason:
                reasons.append(str(reason))
                return from_memory(node)
        case _:
            return node


def _tiled(loop: For, loops: list[For], text: VectorText, taken: AbstractSet[str], facts: Facts) -> LoopNode:
    """Raises NoRegisterTile."""
    if loop.step != 1 or loop.is_parallel:
        raise NoRegisterTile(f"{loop.iterator} does not run one by one")
    lanes = loops[-1].vector or host_lanes(text.nest, loops[-1])
    moving = {loop.iterator, *(point.iterator for point in loops)}
    points = [point_of(point, moving) for point in loops]
    is_full, first, last = _full_range(loop, points)
    main = replace(loop, start=first, stop=last, body=Block(tuple(_copies(points, lanes))), vector=lanes)
    binds = tuple(Bind(point.loop.iterator, point.base) for point in points)
    tile = RegisterTile(main, points[-1].loop.iterator, binds)
    _check_text(tile, text)
    elements = list(dict.fromkeys(element for call in tile.calls for element in elements_of(call, tile.axis, text)))
    begins = AllOf(tuple(Comparison(variable(bind.name), Relation.EQUAL, bind.value) for bind in binds))
    inside, needed, otherwise = facts.and_that(begins).and_in(main), facts.unproved(is_full), None
    conditions = not_empty(main)
    if not needed:
        _check_held(tile, elements, inside)
    else:
        try:
            _check_held(tile, elements, inside)
            tile, more = masked(tile, [point.apart_from(loop.iterator) for point in points], text, taken, facts)
            conditions += more
        except NoRegisterTile:
            _check_held(tile, elements, inside.and_that(AllOf(tuple(needed))))
            conditions += needed
            otherwise = from_memory(loop)
    guard = AllOf(tuple(facts.unproved(conditions)))
    if (first, last) == (loop.start, loop.stop):
        return If(guard, tile, otherwise) if guard.conditions else tile
    return _between(loop, guard, tile, taken)


def _between(loop: For, guard: AllOf, tile: RegisterTile, taken: AbstractSet[str]) -> LoopNode:
    """The tile, if the guard holds, and the loop's iterations before and after it, or all of them, from memory."""
    rest, first, last = from_memory(loop), tile.loop.start, tile.loop.stop
    if guard.conditions:
        first, last = choice(guard, first, loop.start), choice(guard, last, loop.start)
    begin, end = (free_name(f"{loop.iterator}_{what}", taken) for what in ("full", "rest"))
    before = [Bind(begin, first), replace(rest, stop=variable(begin))]
    after = [Bind(end, last), replace(rest, start=variable(end))]
    return block_of(
        *(before if tile.loop.start != loop.start else ()),
        If(guard, tile) if guard.conditions else tile,
        *(after if tile.loop.stop != loop.stop or guard.conditions else ()),
    )


def _full_range(loop: For, points: list[Point]) -> tuple[list[Comparison], Affine, Affine]:
    """When tiles are full: conditions that the loop does not change, and its iterations, from and up to."""
    conditions: list[Comparison] = []
    first, last = loop.start, loop.stop
    extremes: dict[str, tuple[Affine, Affine]] = {}
    for point in points:
        end = point.base + number(point.trips)
        margins = [point.base - _extreme(start, extremes, 1) for start in alternatives(point.loop.start, Maximum)]
        margins += [_extreme(stop, extremes, 0) - end for stop in alternatives(point.loop.stop, Minimum)]
        for margin in margins:
            factor = coefficient_of(margin, loop.iterator)
            without = margin - variable(loop.iterator).times(factor or 0)
            match factor:
                case 0:
                    if margin.terms or margin.constant < 0:
                        conditions.append(Comparison(number(0), Relation.LESS_EQUAL, margin))
                case 1:
                    first = largest(first, without.times(-1))
                case -1:
                    last = smallest(last, without + number(1))
                case _:
                    raise NoRegisterTile(f"which tiles are full depends on {loop.iterator} in a way that is not simple")
        extremes[point.loop.iterator] = (point.base, end + number(-1))
    return [readable(condition) for condition in conditions], first, last


def readable(condition: Comparison) -> Comparison:
    """`i + 8 <= n` for `0 <= n - i - 8`."""
    margin = condition.right
    negative = tuple((term, -factor) for term, factor in margin.terms if factor < 0)
    positive = tuple((term, factor) for term, factor in margin.terms if factor > 0)
    return Comparison(
        Affine(negative, max(0, -margin.constant)), Relation.LESS_EQUAL, Affine(positive, max(0, margin.constant))
    )


def _extreme(bound: Affine, extremes: dict[str, tuple[Affine, Affine]], end: int) -> Affine:
    """The least (0) or greatest (1) value of a bound over the points of the loops around."""
    for name, ends in extremes.items():
        factor = coefficient_of(bound, name)
        if factor is None:
            raise NoRegisterTile(f"which tiles are full depends on {name} in a way that is not simple")
        if factor:
            bound = substitute(bound, {name: ends[end if factor > 0 else 1 - end]})
    return bound


def _copies(points: list[Point], lanes: int) -> Iterator[Call]:
    """The statements of all points of a full tile, those of a vector together."""
    *_, innermost = points
    if innermost.trips % lanes:
        raise NoRegisterTile(f"{innermost.loop.iterator} has {innermost.trips} iterations, and a vector {lanes} lanes")
    parts = innermost.calls
    steps = [1] * (len(points) - 1) + [lanes]
    offsets = [range(0, point.trips, step) for point, step in zip(points, steps, strict=True)]
    names = [point.loop.iterator for point in points]
    found: list[Call] = []
    for offset in product(*offsets):
        shifted = {name: variable(name) + number(by) for name, by in zip(names, offset, strict=True)}
        found += [call for call in (substitute_names(part, shifted) for part in parts) if isinstance(call, Call)]
    if len(found) > STATEMENT_LIMIT:
        raise CandidateError(
            f"a register tile of {len(found)} vector statements; at most {STATEMENT_LIMIT} are allowed"
        )
    yield from found


def _check_text(tile: RegisterTile, text: VectorText) -> None:
    axis = text.axis(tile)
    if axis.scalars:
        raise NoRegisterTile(f"{', '.join(sorted(axis.scalars))} has a value of its own in each iteration")
    try:
        for call in tile.calls:
            text.check(call, axis)
    except NoVectorForm as obstacle:
        raise NoRegisterTile(str(obstacle)) from obstacle


def _check_held(tile: RegisterTile, elements: list[Element], facts: Facts) -> None:
    """Whether all that is written can stay in registers while the loop runs; raises NoRegisterTile."""
    for held in (element for element in elements if element.is_write):
        if not held.is_row:
            raise NoRegisterTile(f"its vectors do not lie along the rows of {held.array}")
        if any(tile.loop.iterator in names_in(subscript) for subscript in held.subscripts):
            raise NoRegisterTile(f"{tile.loop.iterator} writes other elements of {held.array} each time")
        for other in elements:
            is_other = other.array == held.array and replace(other, is_write=True) != held
            if is_other and not _are_apart(held, other, tile.loop.vector, facts):
                raise NoRegisterTile(f"it reads what it writes of {held.array} in another place too")


def _are_apart(held: Element, other: Element, lanes: int, facts: Facts) -> bool:
    """Whether no lane of one is ever an element of the other, whatever the loop's iteration."""
    if _are_constants_apart(held, other, lanes):
        return True
    lane, other_lane = variable("lane'"), variable("lane''")
    here = [sub + lane.times(step) for sub, step in zip(held.subscripts, held.steps, strict=True)]
    there = [sub + other_lane.times(step) for sub, step in zip(other.subscripts, other.steps, strict=True)]
    equal = [Comparison(a, Relation.EQUAL, b) for a, b in zip(here, there, strict=True)]
    within = [fact for name in (lane, other_lane) for fact in between(number(0), name, number(lanes))]
    return facts.exclude([*equal, *within])


def _are_constants_apart(held: Element, other: Element, lanes: int) -> bool:
    """Whether a look at the constants says so: for the many pairs of one tile, isl takes too long."""
    for here, there, step, other_step in zip(held.subscripts, other.subscripts, held.steps, other.steps, strict=True):
        distance, reach = here - there, [(lanes - 1) * step, (lanes - 1) * -other_step]
        least, most = (distance.constant + sum(pick(0, by) for by in reach) for pick in (min, max))
        if not distance.terms and not least <= 0 <= most:
            return True
    return False
