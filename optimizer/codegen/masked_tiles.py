"""Register tiles that are not full: the same code, with masks for what lies outside of the tile's loops."""

from __future__ import annotations

from collections.abc import Mapping
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
    largest,
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
    Mask,
    RegisterTile,
    substitute_names,
)
from optimizer.codegen.naming import free_name
from optimizer.codegen.point_loops import Element, NoRegisterTile, Point, elements_of, not_empty
from optimizer.codegen.vector_text import VectorText
from optimizer.polyhedral.nest import Role


def masked(
    tile: RegisterTile, points: list[Point], text: VectorText, taken: AbstractSet[str], facts: Facts
) -> tuple[RegisterTile, list[Comparison]]:
    """The same tile where its loops need not be full, and what must hold for it to be run: some row is inside.

    `points` are its loops, whose bounds stay the same while it runs. Rows outside of them repeat the nearest one
    inside, and nothing of them is stored. Raises NoRegisterTile where masks are not proved to be right.
    """
    if len(points) != 2:
        raise NoRegisterTile("masks are made for one loop over rows and one over columns")
    row, columns = points
    _check_reads(tile, row, columns, text, facts)
    _check_owners(tile, row, columns, text)
    row_name, axis, lanes = row.loop.iterator, columns.loop.iterator, tile.loop.vector
    names = set(taken) | {row_name, axis}
    binds = list(tile.binds)

    def named(wanted: str, value: Affine) -> Affine:
        if value.variable_name() or not value.terms:
            return value
        name = free_name(wanted, names)
        names.add(name)
        binds.append(Bind(name, value))
        return variable(name)

    copies: list[Call] = []
    spans: list[tuple[Affine, Affine]] = []
    for offset in range(row.trips):
        own = variable(row_name) + number(offset)
        nearest = largest(*row.starts, smallest(own, *(stop + number(-1) for stop in row.stops)))
        inside = own if nearest == own else named(f"{row_name}_{offset}", nearest)
        first = largest(variable(axis), *(substitute(start, {row_name: inside}) for start in columns.starts))
        end = variable(axis) + number(columns.trips)
        last = smallest(*(substitute(stop, {row_name: inside}) for stop in columns.stops or (end,)))
        if inside != own:
            last = choice(Comparison(inside, Relation.EQUAL, own), last, variable(axis))
        spans.append((named(f"{axis}_first_{offset}", first), named(f"{axis}_end_{offset}", last)))
        for at in range(0, columns.trips, lanes):
            there = {row_name: inside, axis: variable(axis) + number(at)}
            copies += [_copied(call, there, {**there, row_name: own}, text) for call in columns.calls]
    read = (
        named(f"{axis}_first", smallest(*dict.fromkeys(first for first, _ in spans))),
        named(f"{axis}_end", largest(*dict.fromkeys(last for _, last in spans))),
    )
    masks = tuple(
        (Mask(variable(axis) + number(at), *span), Mask(variable(axis) + number(at), *read))
        for span, at, _ in product(spans, range(0, columns.trips, lanes), columns.calls)
    )
    loop = replace(tile.loop, body=Block(tuple(copies)))
    return RegisterTile(loop, tile.axis, tuple(binds), masks), not_empty(row.loop)


def _copied(call: Call, inside: Mapping[str, Affine], own: Mapping[str, Affine], text: VectorText) -> Call:
    """The call for a row that is inside; what it reads of buffers is there for each row."""
    iterators = text.nest.statement(call.statement).iterators
    values = (own if iterator in text.buffer_subscripts else inside for iterator in iterators)
    return Call(
        call.statement,
        tuple(substitute(argument, value) for argument, value in zip(call.arguments, values, strict=True)),
    )


def _check_reads(tile: RegisterTile, row: Point, columns: Point, text: VectorText, facts: Facts) -> None:
    """Whether all that the tile reads lies in its arrays: for each row that is inside, whatever the columns; and for
    columns between any two that are inside, of whatever rows. Raises NoRegisterTile.
    """
    name, axis = row.loop.iterator, columns.loop.iterator
    inside = facts.and_in(tile.loop).and_in(row.loop)
    in_columns = inside
    for prime, kind, bound in (("'", Maximum, columns.loop.start), ("''", Minimum, columns.loop.stop)):
        other = {name: variable(name + prime)}
        in_columns = in_columns.and_that(
            AllOf(between(substitute(row.loop.start, other), other[name], substitute(row.loop.stop, other)))
        )
        for each in alternatives(substitute(bound, other), kind):
            relation = Relation.GREATER_EQUAL if kind is Maximum else Relation.LESS
            in_columns = in_columns.and_that(Comparison(variable(axis), relation, each))
    for call in columns.calls:
        for element in elements_of(call, axis, text):
            if element.array in text.buffers:
                continue
            if element.array in text.places:
                raise NoRegisterTile(f"{element.array} is a scalar that is kept in an array")
            if element.is_write or text.nest.array(element.array).role is Role.SCALAR:
                continue
            _check_inside(element, text, in_columns if any(element.steps) else inside)


def _check_owners(tile: RegisterTile, row: Point, columns: Point, text: VectorText) -> None:
    """Whether what a vector of a row writes is used by no other, since each has its own mask. Raises NoRegisterTile."""
    owners: dict[Element, tuple[int, int]] = {}
    used: set[tuple[Element, tuple[int, int]]] = set()
    for place in product(range(row.trips), range(0, columns.trips, tile.loop.vector)):
        names = zip((row.loop.iterator, columns.loop.iterator), place, strict=True)
        there = {name: variable(name) + number(offset) for name, offset in names}
        for call in columns.calls:
            copy = substitute_names(call, there)
            assert isinstance(copy, Call)
            for element in elements_of(copy, columns.loop.iterator, text):
                vector = replace(element, is_write=True)
                used.add((vector, place))
                if element.is_write:
                    owners[vector] = place
    for vector, place in used:
        if owners.get(vector, place) != place:
            raise NoRegisterTile(f"several of its rows or vectors use the same elements of {vector.array}")


def _check_inside(element: Element, text: VectorText, facts: Facts) -> None:
    for subscript, extent in zip(element.subscripts, text.extents(element.array), strict=True):
        lowest = Comparison(number(0), Relation.LESS_EQUAL, subscript)
        if extent is None or facts.unproved([lowest, Comparison(subscript, Relation.LESS, extent)]):
            raise NoRegisterTile(f"{element.array} might be read outside")
