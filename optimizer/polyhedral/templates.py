"""Schedules worth trying on a nest, most promising first: order of loops, tiles, threads. Every one is legal.

Each template starts from a base (the untouched nest, or one of isl's schedules) and applies the same four moves to
every chain of perfectly nested loops: take inner statements apart, put the loop that walks memory best innermost, tile,
and give the outermost possible loop to the threads. Every move is judged on the whole schedule before it is kept.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import cast

import joblib

from optimizer.polyhedral.column_templates import in_columns
from optimizer.polyhedral.counting import bytes_of
from optimizer.polyhedral.draft import Draft
from optimizer.polyhedral.fuse_templates import one_pass_orders
from optimizer.polyhedral.jam_templates import jams
from optimizer.polyhedral.locality import START_OF_THREADS, iteration_price, tree_price
from optimizer.polyhedral.model import Model, model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.panel_templates import panels
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.recurrence_templates import side_by_side
from optimizer.polyhedral.reduce_templates import shared_reductions, vector_reductions
from optimizer.polyhedral.register_templates import eliminations, register_tilings
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.stencil_templates import plane_tilings, time_tilings
from optimizer.polyhedral.steps.autoschedule import FUSIONS, Autoschedule
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.privatize import Privatize
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.structure import around, chains, loop_named
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.stream_templates import LEAST_BYTES, in_pieces, streamed
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops, show
from optimizer.polyhedral.vector_form import ROUNDED_ANEW, VECTOR_FUNCTIONS

TILES: tuple[tuple[int, ...], ...] = ((64, 64, 64, 64), (), (32, 32, 32, 32), (8, 64, 512, 512), (16, 32, 256, 256))
"""Tile sizes from the outermost loop of a chain in, those that pay most often first; none is no tiling."""


BEFORE_STREAMS = 3
"""How many members of a family come before those that write large arrays past the caches."""


@dataclass(frozen=True, slots=True)
class Family:
    """One order of the loops, untiled and with several tile sizes."""

    price: float
    members: tuple[tuple[Schedule, str], ...]
    """Each with the text of the tree that it comes to."""
    leading: int = 1
    """How many of them come before those of other families, if this one is the most promising."""


def templates(
    model: Model, sizes: Mapping[str, int], threads: int, jobs: int = 1, register_tile: tuple[int, int] = (8, 24)
) -> tuple[Schedule, ...]:
    """All templates of a nest without repeats: one of each family in turn, the most promising first.

    `register_tile` are the rows and columns that the machine's registers hold. `jobs` processes find the members of the
    families; how many they are changes nothing in the answer.
    """
    plain = tuple(_orders(model))
    known = {show(order.tree) for order in plain}
    passes = [(order, share) for order, share in one_pass_orders(plain[:2], sizes) if show(order.tree) not in known]
    orders = [*((Schedule(order.steps), 1.0) for order in plain), *((Schedule(o.steps), share) for o, share in passes)]
    found = joblib.Parallel(n_jobs=min(jobs, len(orders)))(
        joblib.delayed(family_of)(model.nest, order, sizes, threads, register_tile, share) for order, share in orders
    )
    families = sorted(cast("list[Family]", found), key=lambda family: family.price)
    most, *others = families
    in_turn = chain(
        most.members[: most.leading],
        chain.from_iterable(zip_longest(most.members[most.leading :], *(family.members for family in others))),
    )
    distinct: dict[str, Schedule] = {}
    for schedule, meaning in filter(None, in_turn):
        distinct.setdefault(meaning, schedule)
    return tuple(schedule for schedule in distinct.values() if schedule.steps)


def family_of(
    nest: Nest,
    order: Schedule,
    sizes: Mapping[str, int],
    threads: int,
    register_tile: tuple[int, int],
    share_of_bytes: float = 1.0,
) -> Family:
    """The family of one legal order of the loops, with the lowest price among its members.

    `share_of_bytes` is what it moves of the bytes that the original moves, where it is of few passes over memory.
    """
    model = model_of(nest)
    tree = order.apply(nest)
    start = Draft(model_for(model, tree), order.steps, tree)
    blocked = eliminations(start, register_tile, threads)
    in_panels = tuple(panels(start, register_tile, sizes, threads))
    whole = register_tilings(start, register_tile, sizes, threads)
    # First those that are best where memory is fast, and where it is slow.
    in_registers = tuple(chain(islice(whole, 1), in_panels, whole))
    jammed = (both for draft in (*in_registers, start) for both in (*jams(draft, sizes, threads), draft))
    together, shared = (tuple(shared_reductions(start, threads, several_parts=each)) for each in (True, False))
    vectors = tuple(each for draft in (*shared, start) for each in vector_reductions(draft))
    has_sums = share_of_bytes < 1.0 or (shared and _has_total(start)) or (not in_registers and _has_rows(start))
    first = (*(vectors if has_sums else ()), *side_by_side(start))
    sweeps = (*time_tilings(start, threads), *plane_tilings(start, threads))
    tilings = _distinct((*first, *together, *sweeps, *blocked, *jammed, *shared, *vectors, *_tilings(start)))
    threaded = [_threaded(tiled, sizes) if threads > 1 else tiled for tiled in tilings]
    drafts = [*chain.from_iterable(map(_with_vectors, threaded)), *threaded]
    drafts[BEFORE_STREAMS:BEFORE_STREAMS] = _streamed(start, threaded[0], sizes, threads)
    price = min(tree_price(draft.model, draft.tree, sizes, draft.is_parallel, threads) for draft in drafts)
    leading = 1
    for found in [each for each in drafts if any(each.steps[: len(p.steps)] == p.steps for p in in_panels)][:1]:
        drafts.remove(found)
        drafts.insert(1, found)
        leading = 2
    members = tuple((Schedule(draft.steps), show(draft.tree)) for draft in drafts)
    return Family(price * share_of_bytes, members, leading)


def _has_total(draft: Draft) -> bool:
    """Whether no loop of some part can run on threads as it is: what it reduces is one number."""
    return any(
        not any(draft.is_parallel(loop.name) for loop in loops(part))
        for part in (draft.tree.parts if isinstance(draft.tree, Sequence) else (draft.tree,))
        if isinstance(part, Loop)
    )


def _has_rows(draft: Draft) -> bool:
    """Whether threads can share a loop of several parts, of which each uses what the one before left in the cache."""
    parts = draft.tree.parts if isinstance(draft.tree, Sequence) else (draft.tree,)
    return any(isinstance(p, Loop) and isinstance(p.body, Sequence) and draft.is_parallel(p.name) for p in parts)


def _streamed(order: Draft, first: Draft, sizes: Mapping[str, int], threads: int) -> Iterator[Draft]:
    """The first member of a family, and the order in pieces, with large arrays written past the caches."""
    nest = order.model.nest
    written = {access.array for statement in nest.statements for access in statement.accesses if access.is_write}
    large = [a.name for a in nest.arrays if a.name in written and bytes_of(nest, a, sizes) >= LEAST_BYTES]
    pieces = in_pieces(order) if large else None
    if pieces is not None:
        yield from streamed(_threaded(pieces, sizes) if threads > 1 else pieces, large)
    yield from streamed(first, large)


def _orders(model: Model) -> Iterator[Draft]:
    start = Draft(model, (), model.nest.tree)
    scheduled = (start.then(Autoschedule(fuse)) for fuse in FUSIONS)
    orders: list[Draft] = []
    for base in _distinct((start, *filter(None, scheduled))):
        innermost_apart = _taken_apart(base, only_innermost=True)
        for apart in _distinct((base, innermost_apart, _taken_apart(innermost_apart, only_innermost=False))):
            orders += (apart, _ordered(apart))
        orders += (_ordered(_taken_apart(cut, only_innermost=False)) for cut in in_columns(base))
    return _distinct((*orders, *_split(start), *_privatized(start)))


def _tilings(order: Draft) -> Iterator[Draft]:
    return _distinct(_tiled(order, sizes) if sizes else order for sizes in TILES)


def _split(draft: Draft) -> Iterator[Draft]:
    """A loop that only the iteration of the loop around it with the same value keeps from running on threads, in three
    parts: below that iteration, that iteration, above it. (Row k of floyd-warshall is what all other rows read.)"""
    for loop in loops(draft.tree):
        for outer in reversed(around(draft.tree, loop.name)):
            if draft.is_parallel(loop.name):
                break
            parts = _in_three_parts(draft, loop.name, outer.name)
            if parts is not None and parts.is_parallel(loop.name):
                yield parts


def _privatized(draft: Draft) -> Iterator[Draft]:
    """The draft with a copy of an array for each iteration of a loop which that lets run on threads, all its parts
    taken apart; of several such loops the innermost that all uses of the array are in."""
    nest, done = draft.model.nest, set[str]()
    for step in reversed(tuple(Privatize.options(nest, draft.tree))):
        users = [s for s in nest.statements if any(access.array == step.array for access in s.accesses)]
        if step.array in done or draft.is_parallel(step.loop) or any(step.loop not in s.iterators for s in users):
            continue
        private = draft.then(step)
        if private is not None and private.is_parallel(step.loop):
            done.add(step.array)
            inside = [loop.name for loop in loops(loop_named(private.tree, step.loop))]
            yield _apart(private, reversed(inside))


def _in_three_parts(draft: Draft, loop: str, outer: str) -> Draft | None:
    """A loop cut below and above the iteration with the value of a loop around it."""
    below = draft.then(Split(loop, outer))
    if below is None:
        return None
    return below.then(Split(below.new_loops(draft)[0], f"{outer} + 1"))


def _distinct(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The drafts without those that come to the same tree as one before."""
    seen: set[str] = set()
    for draft in drafts:
        meaning = show(draft.tree)
        if meaning not in seen:
            seen.add(meaning)
            yield draft


def _taken_apart(draft: Draft, only_innermost: bool) -> Draft:
    """Loops that run several parts become one loop a part where that is legal, from the innermost out."""
    every = tuple(loops(draft.tree))
    chosen = [loop.name for loop in every if not only_innermost or all(isinstance(p, Leaf) for p in _body_parts(loop))]
    return _apart(draft, reversed(chosen))


def _apart(draft: Draft, names: Iterable[str]) -> Draft:
    for name in names:
        loop = find_loop(draft.tree, name)
        if loop is not None and isinstance(loop.body, Sequence):
            draft = draft.then(Distribute(name)) or draft
    return draft


def _ordered(draft: Draft) -> Draft:
    """In each chain that ends in statements, the loop of the lowest price per iteration moves innermost."""
    for nested in tuple(chains(draft.tree)):
        names = [loop.name for loop in nested]
        if len(names) < 2 or any(isinstance(node, Loop) for node in _body_parts(nested[-1])):
            continue
        inside = tuple(leaves(nested[-1]))

        def price(name: str, inside: tuple[Leaf, ...] = inside, draft: Draft = draft) -> float:
            return sum(iteration_price(draft.model, leaf, name, draft.is_parallel(name)) for leaf in inside)

        for name in sorted(names, key=price):
            if name == names[-1]:
                break
            order = [other for other in names if other != name] + [name]
            moved = draft.then(Reorder(tuple(order)))
            if moved is not None:
                draft = moved
                break
    return draft


def _body_parts(loop: Loop) -> tuple[Node, ...]:
    return loop.body.parts if isinstance(loop.body, Sequence) else (loop.body,)


def _tiled(draft: Draft, sizes: tuple[int, ...]) -> Draft:
    """Every chain of two loops or more is tiled, from its outermost loop that allows it."""
    for nested in tuple(chains(draft.tree)):
        names = [loop.name for loop in nested]
        for first in range(len(names) - 1):
            tiles = tuple(zip(names[first:], sizes, strict=False))
            tiled = draft.then(Tile(tiles))
            if tiled is not None:
                draft = tiled
                break
    return draft


def _threaded(draft: Draft, sizes: Mapping[str, int]) -> Draft:
    """Each part of the tree without threads gives its outermost possible loop to them, unless it is brief."""
    for name in tuple(_outermost(draft.tree)):
        loop = find_loop(draft.tree, name)
        if loop is None or any(inner.is_parallel for inner in loops(loop)):
            continue
        if any(loops(loop.body)) or tree_price(draft.model, loop, sizes, draft.is_parallel, 1) > START_OF_THREADS:
            draft = _with_threads(draft, name) or draft
    return draft


def _with_vectors(draft: Draft) -> Iterator[Draft]:
    """The draft with vectors where statements choose between values, or call functions like `exp`, of which compilers
    rarely make vectors; all else they do by themselves."""
    result = draft
    for *_, innermost in tuple(chains(draft.tree)):
        statements = {leaf.statement for leaf in leaves(innermost)}
        choose = any(_chooses(draft.model.nest.statement(name).body) for name in statements)
        if choose and innermost.vector == 1 and not innermost.is_parallel and not any(loops(innermost.body)):
            result = _vectorized(result, innermost.name) or result
    if result is not draft:
        yield result


def _vectorized(draft: Draft, loop: str) -> Draft | None:
    """The loop as vectors, if need be without the iteration that the others wait for."""
    whole = draft.then(Vectorize(loop))
    if whole is not None:
        return whole
    for outer in around(draft.tree, loop):
        parts = _in_three_parts(draft, loop, outer.name)
        vectors = None if parts is None else parts.then(Vectorize(loop))
        if parts is not None and vectors is not None:
            return vectors.then(Vectorize(parts.new_loops(draft)[-1])) or vectors
    return None


def _chooses(body: str) -> bool:
    return any(
        isinstance(node, ast.IfExp)
        or (isinstance(node, ast.Name) and node.id in ("min", "max"))
        or (isinstance(node, ast.Call) and VECTOR_FUNCTIONS.get(ast.unparse(node.func)) in ROUNDED_ANEW)
        for node in ast.walk(ast.parse(body))
    )


def _outermost(node: Node) -> Iterator[str]:
    match node:
        case Leaf():
            return
        case Loop():
            yield node.name
        case Sequence():
            for part in node.parts:
                yield from _outermost(part)


def _with_threads(draft: Draft, name: str) -> Draft | None:
    """The loop parallel; or another of its chain moved out; or a wavefront of tiles; or the loops inside it."""
    if draft.is_parallel(name):
        return draft.with_threads_on(name)
    nested = next(nested for nested in chains(draft.tree) if name in (loop.name for loop in nested))
    names = [loop.name for loop in nested]
    for other in names[1:]:
        if draft.is_parallel(other):
            moved = draft.then(Reorder((other, *(n for n in names if n != other))))
            if moved is not None and moved.is_parallel(other):
                return moved.with_threads_on(other)
    tiles = [loop for loop in names if loop.endswith("_t")]
    if len(tiles) >= 2:
        for second in tiles[1:]:
            waved = draft.then(Wavefront(tiles[0], second))
            if waved is not None:
                return waved
    result = draft
    loop = find_loop(draft.tree, name)
    for inner in _outermost(loop.body) if loop is not None else ():
        result = _with_threads(result, inner) or result
    return None if result is draft else replace(result)
