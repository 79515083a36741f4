"""Local arrays of which one tile is alive at a time are as small as that tile, in terms of the loop AST.

    T = np.empty((n, m))                            for i_t:                 # parallel
    for i_t: for j_t:                                   T = np.empty((96, 24))
        for i: for j: T[i, j] = ...           ->        for j_t:
        for i: for j: C[i, j] = ... T[i, j]                 for i: for j: T[i - 96 * i_t, j - 24 * j_t] = ...
                                                            for i: for j: C[i, j] = ... T[i - 96 * i_t, j - 24 * j_t]

That is array contraction (V. Sarkar, G. Gao, "Optimization of array accesses by collective loop transformations",
1991) to a tile. It changes nothing if each element is used in a single iteration of the loops over tiles, which isl
proves of the schedule, and if nobody has seen the array before or sees it afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod

import islpy as isl

from optimizer.codegen.affine import number, variable
from optimizer.codegen.loop_ast import Allocate, Block, Call, For, If, LoopNode, block_of, calls, walk
from optimizer.codegen.naming import free_name
from optimizer.errors import CandidateError
from optimizer.polyhedral.contraction import elements_of, is_temporary, levels_around, times_of
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Array, Nest, Role, Statement
from optimizer.polyhedral.order import timed_leaves
from optimizer.polyhedral.private_arrays import with_subscripts
from optimizer.polyhedral.tree import Leaf, Node, Private, loops

LARGEST_TILE = 1 << 17
"""Elements: a thread's stack and caches are small, and memory of this size is there again for the next tile."""


@dataclass(frozen=True, slots=True)
class TileMemory:
    """Loops in which local arrays are as small as their tiles."""

    loops: LoopNode
    nest: Nest
    """With statements that say where in a tile they are by iterators of their own."""
    subscripts: frozenset[str]
    """These iterators."""


@dataclass(frozen=True, slots=True)
class _Tile:
    loop: str
    size: int


def with_tile_memory(
    node: LoopNode, nest: Nest, tree: Node, owned: Collection[str], taken: AbstractSet[str]
) -> TileMemory:
    """The loops of a schedule with tiles in the place of arrays where that is proved to change nothing.

    `owned` arrays have memory in the loops already; names in `taken` are not free.

    Raises CandidateError when isl needs too many operations.
    """
    result = TileMemory(node, nest, frozenset())
    kept = {*owned, *(name for loop in loops(tree) for name in (*loop.packs, *loop.streams))}
    for array in nest.arrays:
        is_free = array.role is Role.LOCAL and array.private is None and array.name not in kept
        if is_free and is_temporary(nest, array):
            try:
                with operation_limit():
                    tiles = _tiles(nest, tree, array)
            except isl.Error as error:
                raise CandidateError(f"code generation gave up: {error}") from error
            if tiles:
                result = _contracted(result, array, tiles, taken) or result
    return result


def _tiles(nest: Nest, tree: Node, array: Array) -> list[_Tile]:
    """For each dimension the loop over tiles of it, where all uses of an element are in one iteration of these loops;
    none where they are not."""
    using = tuple(timed for timed in timed_leaves(tree) if _uses(nest, timed.leaf.statement, array.name))
    if not using or not array.shape:
        return []
    around = levels_around(tree, using)
    found = [_tile(nest, [timed.leaf for timed in using], array, place, around) for place in range(len(array.shape))]
    tiles = [tile for tile in found if tile is not None]
    if len(tiles) < len(found):
        return []
    elements = elements_of(nest, using, array, slice(None))
    depth = max(around.index(tile.loop) + 1 for tile in tiles)
    return tiles if elements.reverse().apply_range(times_of(nest, using, depth)).is_single_valued() else []


def _tile(nest: Nest, inside: list[Leaf], array: Array, dimension: int, around: list[str | None]) -> _Tile | None:
    """The loop and the size if every subscript is an iterator of which one loop around counts tiles of one size."""
    found: set[_Tile | None] = set()
    for leaf in inside:
        for access in nest.statement(leaf.statement).accesses:
            if access.array == array.name:
                found.add(_tile_of(leaf, access.subscripts[dimension], around))
    return found.pop() if len(found) == 1 else None


def _tile_of(leaf: Leaf, subscript: str, around: list[str | None]) -> _Tile | None:
    if not subscript.isidentifier():
        return None
    for loop in filter(None, reversed(around)):
        counted = re.fullmatch(r"floor\(\(?(\w+)\)?/(\d+)\)", leaf.values.get(loop, ""))
        if counted is not None and counted[1] == subscript:
            return _Tile(loop, int(counted[2]))
    return None


def _contracted(result: TileMemory, array: Array, tiles: list[_Tile], taken: AbstractSet[str]) -> TileMemory | None:
    """None where a loop of the schedule has become several, or none, or the tile would be too large."""
    node, nest = result.loops, result.nest
    over = {tile.loop: _only_loop(node, tile.loop) for tile in tiles}
    users = _users(node, nest, array.name)
    found = {name: loop for name, loop in over.items() if loop is not None and loop.step == 1}
    is_whole = len(found) == len(over) and all(_users(loop, nest, array.name) == users for loop in found.values())
    if not is_whole or prod(tile.size for tile in tiles) > LARGEST_TILE:
        return None
    names: dict[str, str] = {}
    statements: dict[str, Statement] = {}
    more: dict[str, tuple[tuple[str, _Tile], ...]] = {}
    for statement in (each for each in nest.statements if _uses(nest, each.name, array.name)):
        own: dict[str, _Tile] = {}
        for access in (each for each in statement.accesses if each.array == array.name):
            own |= dict(zip(access.subscripts, tiles, strict=True))
        for iterator in own:
            wanted = f"{array.name}_{iterator}"
            names.setdefault(iterator, free_name(wanted, {*taken, *result.subscripts, *names.values()}))
        changed = with_subscripts(
            statement, array.name, array.name, lambda subscripts: tuple(names[each] for each in subscripts)
        )
        iterators = (*statement.iterators, *(names[each] for each in own))
        statements[statement.name] = replace(changed, iterators=iterators)
        more[statement.name] = tuple(own.items())
    iterators_of = {statement.name: statement.iterators for statement in nest.statements}
    variables = {name: loop.iterator for name, loop in found.items()}
    rewritten = _Rewriter(more, iterators_of, variables).node(node)
    memory = Allocate(array.name, array.dtype, tuple(number(tile.size) for tile in tiles))
    innermost = min(found.values(), key=lambda loop: sum(1 for _ in walk(loop)))
    owner = _owner(node, innermost)
    shape = tuple(str(tile.size) for tile in tiles)
    marked = replace(array, shape=shape, private=Private(array.name, owner))
    return TileMemory(
        _with_memory(rewritten, memory, owner) if owner else block_of(memory, rewritten),
        replace(
            nest,
            arrays=tuple(marked if each == array else each for each in nest.arrays),
            statements=tuple(statements.get(each.name, each) for each in nest.statements),
        ),
        result.subscripts | set(names.values()),
    )


def _only_loop(node: LoopNode, name: str) -> For | None:
    """What a loop of the schedule has become, if that is one loop."""
    found = [part for part in walk(node) if isinstance(part, For) and part.name == name]
    return found[0] if len(found) == 1 else None


def _owner(node: LoopNode, tiles: For) -> str:
    """The innermost parallel loop of which each iteration needs memory of its own: the innermost loop over tiles, or
    one around it."""
    return next(
        (
            part.name
            for part in reversed(tuple(walk(node)))
            if isinstance(part, For) and part.is_parallel and any(inner is tiles for inner in walk(part))
        ),
        "",
    )


@dataclass(frozen=True, slots=True)
class _Rewriter:
    more: Mapping[str, tuple[tuple[str, _Tile], ...]]
    """For each statement that uses the array, the iterators of which it has the place in a tile as well."""
    iterators: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, str]
    """Of the loops over tiles."""

    def node(self, node: LoopNode) -> LoopNode:
        match node:
            case Call(statement, arguments) if statement in self.more:
                values = dict(zip(self.iterators[statement], arguments, strict=True))
                places = (
                    values[iterator] - variable(self.variables[tile.loop]).times(tile.size)
                    for iterator, tile in self.more[statement]
                )
                return replace(node, arguments=(*arguments, *places))
            case Block(parts):
                return block_of(*map(self.node, parts))
            case If(condition, then, otherwise):
                return If(condition, self.node(then), None if otherwise is None else self.node(otherwise))
            case For():
                return replace(node, body=self.node(node.body))
            case _:
                return node


def _with_memory(node: LoopNode, memory: Allocate, owner: str) -> LoopNode:
    """The memory in each iteration of the parallel loop that owns it."""
    match node:
        case Block(parts):
            return block_of(*(_with_memory(part, memory, owner) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else _with_memory(otherwise, memory, owner)
            return If(condition, _with_memory(then, memory, owner), other)
        case For() if node.name == owner:
            return replace(node, body=block_of(memory, node.body))
        case For():
            return replace(node, body=_with_memory(node.body, memory, owner))
        case _:
            return node


def _uses(nest: Nest, statement: str, array: str) -> bool:
    return any(access.array == array for access in nest.statement(statement).accesses)


def _users(node: LoopNode, nest: Nest, array: str) -> int:
    return sum(_uses(nest, call.statement, array) for call in calls(node))
