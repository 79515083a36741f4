"""Copies of what register tiles read, in the order in which they read it, in terms of the loop AST.

    for k: for i (8 of them): for j (3 vectors)      C[i, j] += A[i, k] * B[k, j]

reads of B a panel of 24 columns, row by row. Its copy has the subscripts [tile of j, k, j within its tile], so that the
tile walks along it. A tile at the edge reads its copy as if it were full: what is not copied there is 0 or left from
before, and nothing that is made of it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from optimizer.codegen.affine import (
    Affine,
    Comparison,
    Minimum,
    Relation,
    alternatives,
    coefficient_of,
    largest,
    names_in,
    number,
    smallest,
    variable,
)
from optimizer.codegen.facts import Facts
from optimizer.codegen.loop_ast import Allocate, Block, Call, For, If, LoopNode, block_of, has_parallel_loop
from optimizer.codegen.naming import free_name
from optimizer.codegen.packed_statements import PackedRead, copying_statement, reading_statement, reads_of
from optimizer.codegen.point_loops import NoRegisterTile, Point, point_loops, point_of
from optimizer.codegen.ranges import NoRange, Ranges, greatest, ranges_of, span
from optimizer.codegen.statement_text import affine_of, parsed
from optimizer.errors import CandidateError
from optimizer.polyhedral.nest import Array, Nest, Role, Statement


@dataclass(frozen=True, slots=True)
class Packed:
    """Loops that make and use copies."""

    loops: LoopNode
    nest: Nest
    """With the copies, and statements more: those that make copies, and those that read them."""
    buffers: frozenset[str]
    """The names of the copies."""
    subscripts: frozenset[str]
    """The iterators of statements that are subscripts of copies."""


def write_packs(node: LoopNode, nest: Nest, taken: frozenset[str]) -> Packed:
    """The same loops with copies before those that the schedule marks; names in `taken` are not free.

    Raises CandidateError where nothing can be copied.
    """
    packer = _Packer(nest, set(taken))
    made = _Place(Facts.of(nest))
    written = packer.write(node, made, made.facts)
    if not packer.buffers:
        raise CandidateError(f"nothing can be packed: {(*packer.reasons, 'no register tile is left')[0]}")
    return Packed(
        block_of(*made.buffers, written), packer.nest, frozenset(packer.buffers), frozenset(packer.subscripts)
    )


@dataclass(slots=True)
class _Place:
    """Where copies get their memory: at the start of the function, or of an iteration of a parallel loop."""

    facts: Facts
    is_in_thread: bool = False
    buffers: list[Allocate] = field(default_factory=list[Allocate])


@dataclass(frozen=True, slots=True)
class _Site:
    """A loop before which copies are made."""

    arrays: tuple[str, ...]
    place: _Place
    facts: Facts
    around: tuple[For, ...]
    """The loops between the place and the site."""
    copies: list[LoopNode]
    """Added here when they are made."""


@dataclass(frozen=True, slots=True)
class _Copy:
    name: str
    subscripts: tuple[Affine, ...]
    """At the read."""


@dataclass(slots=True)
class _Packer:
    nest: Nest
    taken: set[str]
    buffers: set[str] = field(default_factory=set[str])
    subscripts: set[str] = field(default_factory=set[str])
    reasons: list[str] = field(default_factory=list[str])
    """Why something is not copied."""

    def write(self, node: LoopNode, place: _Place, facts: Facts, around: tuple[For, ...] = ()) -> LoopNode:
        """`around`: the loops between the place and here."""
        match node:
            case Block(parts):
                return block_of(*(self.write(part, place, facts, around) for part in parts))
            case If(condition, then, otherwise):
                other = None if otherwise is None else self.write(otherwise, place, facts, around)
                return If(condition, self.write(then, place, facts.and_that(condition), around), other)
            case For():
                site = _Site(node.packs, place, facts, around, [])
                loop = self._reading(node, site, ()) if node.packs else node
                assert isinstance(loop, For)
                inside = facts.and_in(node)
                if loop.is_parallel:
                    own = _Place(inside, is_in_thread=True)
                    body = self.write(loop.body, own, inside)
                    body = block_of(*own.buffers, body)
                else:
                    body = self.write(loop.body, place, inside, (*around, node))
                return block_of(*site.copies, replace(loop, body=body, packs=()))
            case _:
                return node

    def _reading(self, node: LoopNode, site: _Site, path: tuple[For, ...]) -> LoopNode:
        """The loops with register tiles that read copies; `path`: the loops from the site to here."""
        match node:
            case Block(parts):
                return block_of(*(self._reading(part, site, path) for part in parts))
            case If(condition, then, otherwise):
                other = None if otherwise is None else self._reading(otherwise, site, path)
                return If(condition, self._reading(then, site, path), other)
            case For():
                points = point_loops(node.body)
                if not points:
                    return replace(node, body=self._reading(node.body, site, (*path, node)))
                try:
                    return self._tile((*path, node), points, site)
                except NoRegisterTile as reason:
                    self.reasons.append(str(reason))
                    return node
            case _:
                return node

    def _tile(self, path: tuple[For, ...], loops: list[For], site: _Site) -> LoopNode:
        """Raises NoRegisterTile."""
        moving = {path[-1].iterator, *(loop.iterator for loop in loops)}
        points = [point_of(loop, moving) for loop in loops]
        known: dict[PackedRead, _Copy] = {}
        body: LoopNode = block_of(*(self._call(call, path, points, site, known) for call in points[-1].calls))
        for loop in reversed(loops):
            body = replace(loop, body=body)
        return replace(path[-1], body=body)

    def _call(
        self, call: Call, path: tuple[For, ...], points: list[Point], site: _Site, known: dict[PackedRead, _Copy]
    ) -> Call:
        """The call of a statement that reads copies; `known`: those that the tile has."""
        texts: dict[PackedRead, tuple[str, tuple[str, ...]]] = {}
        arguments = list(call.arguments)
        for read in reads_of(self.nest, call, site.arrays):
            try:
                copy = known[read] = known.get(read) or self._copy(read, path, points, site)
            except NoRange as reason:
                self.reasons.append(f"{read.array}: {reason}")
                continue
            names = tuple(self._fresh(f"{copy.name}_at") for _ in copy.subscripts)
            self.subscripts |= set(names)
            texts[read] = copy.name, names
            arguments += copy.subscripts
        if not texts:
            return call
        statement = reading_statement(self.nest, call, texts)
        return Call(self._added(statement, f"{call.statement}_packed"), tuple(arguments))

    def _copy(self, read: PackedRead, path: tuple[For, ...], points: list[Point], site: _Site) -> _Copy:
        """Adds to the site what makes a copy of all that a tile reads; raises NoRange."""
        ranges = ranges_of(path)
        within = _within(read, path, points)
        loops = [_loop_over(node, ranges) for node in within]
        loops = _clipped(loops, read, self.nest, site.facts)
        firsts = [node.base if isinstance(node, Point) else ranges[node.iterator][0] for node in within]
        spans = [number(node.trips) if isinstance(node, Point) else span(*ranges[node.iterator]) for node in within]
        name = self._fresh(f"{read.array}_packed")
        self.buffers.add(name)
        dtype = self.nest.array(read.array).dtype
        self.nest = replace(self.nest, arrays=(*self.nest.arrays, Array(name, dtype, (), Role.LOCAL)))
        self._allocate(name, dtype, spans, site)
        subscripts = tuple(variable(loop.iterator) - first for loop, first in zip(loops, firsts, strict=True))
        statement = copying_statement(read, name, len(subscripts))
        body: LoopNode = Call(self._added(statement, f"{name}_copy"), (*subscripts, *read.subscripts))
        for loop in reversed(loops):
            body = replace(loop, body=body)
        is_shared = not site.place.is_in_thread and any(map(has_parallel_loop, path))
        assert isinstance(body, For)
        site.copies.append(replace(body, is_parallel=is_shared))
        return _Copy(name, subscripts)

    def _allocate(self, name: str, dtype: str, spans: list[Affine], site: _Site) -> None:
        """At the place if the size can be told there, else at the site."""
        try:
            ranges = ranges_of(site.around)
            extents, facts, buffers = [greatest(each, ranges) for each in spans], site.place.facts, site.place.buffers
        except NoRange:
            extents, facts, buffers = spans, site.facts, site.copies
        extents = tuple(_not_negative(extent, facts) for extent in extents)
        buffers.append(Allocate(name, dtype, extents, fill="zeros"))

    def _added(self, statement: Statement, wanted: str) -> str:
        """The name under which the nest has the statement now."""
        name = free_name(wanted, {other.name for other in self.nest.statements})
        self.nest = replace(self.nest, statements=(*self.nest.statements, replace(statement, name=name)))
        return name

    def _fresh(self, wanted: str) -> str:
        name = free_name(wanted, self.taken)
        self.taken.add(name)
        return name


def _within(read: PackedRead, path: tuple[For, ...], points: list[Point]) -> tuple[For | Point, ...]:
    """What moves a read, in the order in which its copy has it: the tiles, the loop around the tile, the place in the
    tile. Raises NoRange."""
    names = {name for subscript in read.subscripts for name in names_in(subscript)}
    own = [point for point in points if point.loop.iterator in names]
    if len(own) > 1:
        raise NoRange("what is read depends on several loops of the tile")
    names |= {name for point in own for name in names_in(point.base)}
    *outside, depth = path
    tiles = [loop for loop in outside if loop.iterator in names]
    if len(tiles) > 1:
        raise NoRange(f"what is read depends on {' and '.join(loop.iterator for loop in tiles)}")
    if depth.iterator not in names:
        raise NoRange(f"{depth.iterator} always reads the same")
    if any(loop.step != 1 for loop in (*tiles, depth)):
        raise NoRange("the loops do not run one by one")
    return (*tiles, depth, *own)


def _loop_over(node: For | Point, ranges: Ranges) -> For:
    """All that may be read."""
    if isinstance(node, Point):
        name, first, stop = node.loop.iterator, node.base, node.base + number(node.trips)
    else:
        name, (first, last) = node.iterator, ranges[node.iterator]
        stop = last + number(1)
    return For(name, name, first, stop, 1, Block())


def _clipped(loops: list[For], read: PackedRead, nest: Nest, facts: Facts) -> list[For]:
    """The loops without what would be read outside of the array; raises NoRange."""
    loops = list(loops)
    for text, subscript in zip(nest.array(read.array).shape, read.subscripts, strict=True):
        extent = affine_of(parsed(text), {})
        if extent is None:
            raise NoRange(f"its extent {text} is not simple")
        place = max((k for k, loop in enumerate(loops) if loop.iterator in names_in(subscript)), default=None)
        inside = facts
        for loop in loops:
            inside = inside.and_in(loop)
        is_low = not inside.imply(Comparison(number(0), Relation.LESS_EQUAL, subscript))
        is_high = not inside.imply(Comparison(subscript, Relation.LESS, extent))
        if not is_low and not is_high:
            continue
        if place is None:
            raise NoRange("it might be read outside")
        loop = loops[place]
        factor = coefficient_of(subscript, loop.iterator)
        if factor not in (1, -1):
            raise NoRange("it might be read outside")
        rest = subscript - variable(loop.iterator).times(factor)
        low, stop = rest.times(-1), extent - rest
        if factor == -1:
            low, stop = rest - extent + number(1), rest + number(1)
            is_low, is_high = is_high, is_low
        start = largest(loop.start, low) if is_low else loop.start
        loops[place] = replace(loop, start=start, stop=smallest(loop.stop, stop) if is_high else loop.stop)
    return loops


def _not_negative(extent: Affine, facts: Facts) -> Affine:
    is_known = all(
        facts.imply(Comparison(number(0), Relation.LESS_EQUAL, each)) for each in alternatives(extent, Minimum)
    )
    return extent if is_known else largest(number(0), extent)
