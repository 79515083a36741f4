"""Schedules worth trying on a nest, most promising first: order of loops, tiles, threads. Every one is legal.

Each template starts from a base (the untouched nest, or one of isl's schedules) and applies the same four moves to
every chain of perfectly nested loops: take inner statements apart, put the loop that walks memory best innermost, tile,
and give the outermost possible loop to the threads. Every move is judged on the whole schedule before it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from optimizer.errors import StepError
from optimizer.polyhedral.legality import Legal, can_be_parallel, judge
from optimizer.polyhedral.locality import iteration_price, tree_price
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.autoschedule import FUSIONS, Autoschedule
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.structure import chains
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, find_loop, leaves, loops, show

TILES: tuple[tuple[int, ...], ...] = ((), (32, 32, 32, 32), (64, 64, 64, 64), (16, 32, 256, 256), (8, 64, 512, 512))
"""Tile sizes from the outermost loop of a chain in; the first template does not tile."""


@dataclass(frozen=True)
class Draft:
    """A legal schedule under construction."""

    model: Model
    steps: tuple[Step, ...]
    tree: Node
    _parallel: dict[str, bool] = field(default_factory=dict[str, bool], repr=False, compare=False)

    def is_parallel(self, loop: str) -> bool:
        """Whether a loop carries no dependence."""
        if loop not in self._parallel:
            self._parallel[loop] = can_be_parallel(self.model, self.tree, loop)
        return self._parallel[loop]

    def with_threads_on(self, loop: str) -> Draft | None:
        """With a loop that carries nothing parallel, which changes no order: there is nothing to judge."""
        try:
            tree = Parallel(loop).apply(self.model.nest, self.tree)
        except StepError:
            return None
        return Draft(self.model, (*self.steps, Parallel(loop)), tree, self._parallel)

    def then(self, *steps: Step) -> Draft | None:
        """With these steps added, if they apply and the whole is still legal."""
        tree = self.tree
        try:
            for step in steps:
                tree = step.apply(self.model.nest, tree)
        except StepError:
            return None
        if judge(self.model, tree).legal is not Legal.YES:
            return None
        return Draft(self.model, (*self.steps, *steps), tree)


def templates(model: Model, sizes: Mapping[str, int], threads: int) -> tuple[Schedule, ...]:
    """All templates of a nest without repeats, the cheapest by a rough estimate first."""
    found: dict[str, tuple[float, Draft]] = {}
    for draft in _drafts(model, threads):
        meaning = show(draft.tree)
        if meaning not in found:
            found[meaning] = (tree_price(model, draft.tree, sizes, draft.is_parallel, threads), draft)
    ranked = sorted(found.values(), key=lambda priced: priced[0])
    return tuple(Schedule(draft.steps) for _, draft in ranked if draft.steps)


def _drafts(model: Model, threads: int) -> Iterator[Draft]:
    start = Draft(model, (), model.nest.tree)
    scheduled = (start.then(Autoschedule(fuse)) for fuse in FUSIONS)
    for base in _distinct((start, *filter(None, scheduled))):
        whole_or_apart = _distinct((base, _taken_apart(base)))
        for draft in _distinct(moved for draft in whole_or_apart for moved in (draft, _ordered(draft))):
            for sizes in TILES:
                tiled = _tiled(draft, sizes) if sizes else draft
                yield _threaded(tiled) if threads > 1 else tiled


def _distinct(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """The drafts without those that come to the same tree as one before."""
    seen: set[str] = set()
    for draft in drafts:
        meaning = show(draft.tree)
        if meaning not in seen:
            seen.add(meaning)
            yield draft


def _taken_apart(draft: Draft) -> Draft:
    """Innermost loops that run several statements become one loop a statement."""
    for loop in tuple(loops(draft.tree)):
        if isinstance(loop.body, Sequence) and all(isinstance(part, Leaf) for part in loop.body.parts):
            draft = draft.then(Distribute(loop.name)) or draft
    return draft


def _ordered(draft: Draft) -> Draft:
    """In each chain that ends in statements, the loop of the lowest price per iteration moves innermost."""
    for chain in tuple(chains(draft.tree)):
        names = [loop.name for loop in chain]
        if len(names) < 2 or any(isinstance(node, Loop) for node in _body_parts(chain[-1])):
            continue
        inside = tuple(leaves(chain[-1]))

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
    for chain in tuple(chains(draft.tree)):
        names = [loop.name for loop in chain]
        for first in range(len(names) - 1):
            tiles = tuple(zip(names[first:], sizes, strict=False))
            tiled = draft.then(Tile(tiles))
            if tiled is not None:
                draft = tiled
                break
    return draft


def _threaded(draft: Draft) -> Draft:
    """Each part of the tree gives its outermost possible loop to the threads."""
    for path in tuple(_outermost(draft.tree)):
        draft = _with_threads(draft, path) or draft
    return draft


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
    chain = next(chain for chain in chains(draft.tree) if name in (loop.name for loop in chain))
    names = [loop.name for loop in chain]
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
