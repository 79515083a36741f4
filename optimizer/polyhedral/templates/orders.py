"""Orders of the loops to start from, untiled: as they stand, by isl, apart, with arrays private. Every one is legal.

In each, inner statements may be taken apart, and the loop that walks memory best put innermost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optimizer.polyhedral.locality import iteration_price
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.steps.autoschedule import FUSIONS, Autoschedule
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.privatize import Privatize
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.structure import around, chains, loop_named
from optimizer.polyhedral.templates.column import in_columns
from optimizer.polyhedral.templates.draft import Draft, distinct
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops


def orders_of(model: Model) -> Iterator[Draft]:
    start = Draft(model, (), model.nest.tree)
    scheduled = (start.then(Autoschedule(fuse)) for fuse in FUSIONS)
    orders: list[Draft] = []
    for base in distinct((start, *filter(None, scheduled))):
        innermost_apart = _taken_apart(base, only_innermost=True)
        for apart in distinct((base, innermost_apart, _taken_apart(innermost_apart, only_innermost=False))):
            orders += (apart, _ordered(apart))
        orders += (_ordered(_taken_apart(cut, only_innermost=False)) for cut in in_columns(base))
    return distinct((*orders, *_split(start), *_privatized(start)))


def _split(draft: Draft) -> Iterator[Draft]:
    """A loop that only the iteration of the loop around it with the same value keeps from running on threads, in three
    parts: below that iteration, that iteration, above it. (Row k of floyd-warshall is what all other rows read.)"""
    for loop in loops(draft.tree):
        for outer in reversed(around(draft.tree, loop.name)):
            if draft.is_parallel(loop.name):
                break
            parts = in_three_parts(draft, loop.name, outer.name)
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


def in_three_parts(draft: Draft, loop: str, outer: str) -> Draft | None:
    """A loop cut below and above the iteration with the value of a loop around it."""
    below = draft.then(Split(loop, outer))
    if below is None:
        return None
    return below.then(Split(below.new_loops(draft)[0], f"{outer} + 1"))


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
