"""Families of templates: one order of the loops, with all that can be made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import cast

import joblib

from optimizer.polyhedral.counting import bytes_of
from optimizer.polyhedral.locality import tree_price
from optimizer.polyhedral.model import Model, model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.templates.draft import Draft, distinct
from optimizer.polyhedral.templates.fuse import one_pass_orders
from optimizer.polyhedral.templates.jam import jams
from optimizer.polyhedral.templates.orders import orders_of
from optimizer.polyhedral.templates.panel import panels
from optimizer.polyhedral.templates.recurrence import side_by_side
from optimizer.polyhedral.templates.reduce import shared_reductions, vector_reductions
from optimizer.polyhedral.templates.register import eliminations, register_tilings
from optimizer.polyhedral.templates.stencil import plane_tilings, time_tilings
from optimizer.polyhedral.templates.stream import LEAST_BYTES, in_pieces, streamed
from optimizer.polyhedral.templates.threads_and_vectors import on_threads, with_vectors
from optimizer.polyhedral.tree import Loop, Sequence, loops, show

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
    plain = tuple(orders_of(model))
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
    tilings = distinct((*first, *together, *sweeps, *blocked, *jammed, *shared, *vectors, *_tilings(start)))
    threaded = [on_threads(tiled, sizes) if threads > 1 else tiled for tiled in tilings]
    drafts = [*chain.from_iterable(map(with_vectors, threaded)), *threaded]
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
        yield from streamed(on_threads(pieces, sizes) if threads > 1 else pieces, large)
    yield from streamed(first, large)


def _tilings(order: Draft) -> Iterator[Draft]:
    return distinct(_tiled(order, sizes) if sizes else order for sizes in TILES)


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
