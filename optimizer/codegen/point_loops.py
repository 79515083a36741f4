"""The loops inside a register tile, and what its statements access."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import product

from optimizer.codegen.affine import (
    Affine,
    Comparison,
    Maximum,
    Minimum,
    Relation,
    alternatives,
    coefficient_of,
    largest,
    names_in,
    number,
    smallest,
)
from optimizer.codegen.loop_ast import Block, Call, For, LoopNode
from optimizer.codegen.unroll import most_trips
from optimizer.codegen.vector_text import VectorText


class NoRegisterTile(Exception):
    """Why a loop runs its tiles from memory."""


@dataclass(frozen=True, slots=True)
class Point:
    """A loop inside a tile: in a full tile it runs from `base` for `trips` iterations."""

    loop: For
    base: Affine
    trips: int

    def apart_from(self, name: str) -> Point:
        """With the bounds alone that a variable does not change."""
        start, stop = (
            [bound for bound in alternatives(bounds, kind) if name not in names_in(bound)]
            for bounds, kind in ((self.loop.start, Maximum), (self.loop.stop, Minimum))
        )
        return replace(self, loop=replace(self.loop, start=largest(*start), stop=smallest(*stop)))

    @property
    def starts(self) -> tuple[Affine, ...]:
        """Where it starts at the earliest, besides `base`."""
        return tuple(start for start in alternatives(self.loop.start, Maximum) if start != self.base)

    @property
    def stops(self) -> tuple[Affine, ...]:
        """Where it stops at the latest, besides `trips` after `base`."""
        end = self.base + number(self.trips)
        return tuple(stop for stop in alternatives(self.loop.stop, Minimum) if stop != end)

    @property
    def calls(self) -> tuple[Call, ...]:
        """What an innermost one runs; raises NoRegisterTile."""
        parts = self.loop.body.parts if isinstance(self.loop.body, Block) else (self.loop.body,)
        found = tuple(part for part in parts if isinstance(part, Call))
        if len(found) < len(parts):
            raise NoRegisterTile("what it runs is not the same everywhere")
        return found


@dataclass(frozen=True, slots=True)
class Element:
    """What a statement accesses: an element, or for each lane one."""

    array: str
    is_write: bool
    subscripts: tuple[Affine, ...]
    """In lane 0."""
    steps: tuple[int, ...]
    """By how much each subscript grows from lane to lane."""

    @property
    def is_row(self) -> bool:
        return not any(self.steps[:-1]) and self.steps[-1:] == (1,)


def point_loops(node: LoopNode) -> list[For]:
    """The loops of a tile, outermost first; none where the node is no register tile."""
    found: list[For] = []
    while isinstance(node, For) and node.unroll == 0 and not node.is_parallel:
        found.append(node)
        node = node.body
    return found if found and found[-1].vector != 1 else []


def from_memory(loop: For) -> For:
    """The loop with its point loops as they stand, one vector at a time."""

    def rolled(node: LoopNode) -> LoopNode:
        return replace(node, unroll=1, body=rolled(node.body)) if isinstance(node, For) else node

    return replace(loop, body=rolled(loop.body))


def not_empty(loop: For) -> list[Comparison]:
    """That an ascending loop has an iteration."""
    bounds = product(alternatives(loop.start, Maximum), alternatives(loop.stop, Minimum))
    return [Comparison(start, Relation.LESS, stop) for start, stop in bounds]


def point_of(loop: For, moving: AbstractSet[str]) -> Point:
    """`moving`: the variables that change while the tile is the same. Raises NoRegisterTile."""
    trips = most_trips(loop)
    starts, stops = alternatives(loop.start, Maximum), alternatives(loop.stop, Minimum)
    bases = [start for start in starts for stop in stops if stop - start == number(trips or 0)]
    if loop.step != 1 or trips is None or not bases:
        raise NoRegisterTile(f"{loop.iterator} has no fixed number of iterations")
    if found := moving & set(names_in(bases[0])):
        raise NoRegisterTile(f"{loop.iterator} begins elsewhere for each {', '.join(sorted(found))}")
    return Point(loop, bases[0], trips)


def elements_of(call: Call, axis: str, text: VectorText) -> Iterator[Element]:
    """What a call accesses in vectors along `axis`; raises NoRegisterTile."""
    statement = text.nest.statement(call.statement)
    values = dict(zip(statement.iterators, call.arguments, strict=True))
    for access in statement.accesses:
        subscripts = text.subscripts_of(access, values)
        steps = tuple(coefficient_of(subscript, axis) for subscript in subscripts)
        if None in steps:
            raise NoRegisterTile(f"a subscript of {access.array} does not grow evenly")
        yield Element(access.array, access.is_write, subscripts, tuple(step or 0 for step in steps))
