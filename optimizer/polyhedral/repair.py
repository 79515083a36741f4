"""The nearest legal schedule to an illegal one: small edits of its steps, each judged as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.errors import StepError
from optimizer.polyhedral.legality import Judgement, Legal, judge, parallel_loops
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.steps import Step
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.shift import Shift
from optimizer.polyhedral.steps.skew import Skew
from optimizer.polyhedral.steps.structure import around
from optimizer.polyhedral.steps.vectorize import LANES, Vectorize
from optimizer.polyhedral.steps.wavefront import Wavefront
from optimizer.polyhedral.tree import WIDEST_VECTOR, Loop, Node, find_loop, leaves, loops, path_to, replace_loop
from optimizer.polyhedral.witness import Fault, Witness

MOST_TRIES = 80
"""How many edited schedules are judged at most; each costs a few milliseconds."""


def repair(model: Model, schedule: Schedule, judgement: Judgement, most_tries: int = MOST_TRIES) -> Schedule | None:
    """The first legal one among the edits of an illegal schedule, the smallest and most useful edits first.

    Tried in this order: reductions in any order; the parallel mark on a loop that allows it; fewer lanes, or none; a
    shift after a fusion; a skew before a step; leaving out one step; the longest legal beginning.
    """
    seen = {str(schedule)}
    tries = 0
    for edited in _edits(model, schedule, judgement.witness):
        if str(edited) in seen:
            continue
        seen.add(str(edited))
        tree = _applied(model, edited)
        if tree is None:
            continue
        tries += 1
        if judge(model, tree).legal is Legal.YES:
            return edited
        if tries >= most_tries:
            return None
    return None


def _edits(model: Model, schedule: Schedule, witness: Witness | None) -> Iterator[Schedule]:
    if witness is not None and witness.loop is not None and witness.fault is not Fault.PARTIAL:
        yield Schedule((*schedule.steps, Reduce(witness.loop)))
    if witness is not None and witness.is_race:
        yield from _other_parallel_loops(model, schedule, witness)
    if witness is not None and witness.fault is Fault.LANES:
        yield from _smaller_vectors(schedule, witness)
    yield from _shifts_after_fusion(model, schedule)
    yield from _skews(model, schedule)
    steps = schedule.steps
    for index in reversed(range(len(steps))):
        yield Schedule((*steps[:index], *steps[index + 1 :]))
    for length in reversed(range(len(steps) - 1)):
        yield Schedule(steps[:length])


def _other_parallel_loops(model: Model, schedule: Schedule, witness: Witness) -> Iterator[Schedule]:
    """The parallel mark on another loop of the finished tree, the nearest first; then a wavefront of two loops."""
    tree = _applied(model, schedule)
    if tree is None or witness.loop is None:
        return
    index = next((k for k, step in enumerate(schedule.steps) if str(step) == f"parallel({witness.loop})"), None)
    if index is None:
        return
    rest = (*schedule.steps[:index], *schedule.steps[index + 1 :])
    unmarked = replace_loop(tree, witness.loop, lambda loop: replace(loop, is_parallel=False, from_ends=False, chunk=0))
    possible = parallel_loops(model, unmarked)
    related = _names_around_and_below(unmarked, witness.loop)
    for name in sorted((loop.name for loop in loops(unmarked)), key=lambda name: name not in related):
        if name in possible:
            yield Schedule((*rest, Parallel(name)))
    for inner in loops(unmarked):
        for outer in around(unmarked, inner.name):
            for skews in ((), (Skew(inner.name, outer.name, 1),), (Skew(inner.name, outer.name, 2),)):
                yield Schedule((*rest, *skews, Wavefront(outer.name, inner.name)))


def _smaller_vectors(schedule: Schedule, witness: Witness) -> Iterator[Schedule]:
    """Fewer lanes, then none."""
    for index, step in enumerate(schedule.steps):
        if isinstance(step, Vectorize) and step.loop == witness.loop:
            before, after = schedule.steps[:index], schedule.steps[index + 1 :]
            for lanes in reversed(LANES):
                if lanes < (step.lanes or WIDEST_VECTOR):
                    yield Schedule((*before, replace(step, lanes=lanes), *after))
            yield Schedule((*before, *after))


def _shifts_after_fusion(model: Model, schedule: Schedule) -> Iterator[Schedule]:
    for index, step in enumerate(schedule.steps):
        if not isinstance(step, Fuse):
            continue
        before = _applied(model, Schedule(schedule.steps[:index]))
        second = find_loop(before, step.second) if before is not None else None
        if second is None:
            continue
        late = tuple(dict.fromkeys(leaf.statement for leaf in leaves(second)))
        for distance in ("1", "2"):
            shifts = tuple(Shift(statement, step.first, distance) for statement in late)
            yield _inserted(schedule, index + 1, *shifts)


def _skews(model: Model, schedule: Schedule) -> Iterator[Schedule]:
    for index in range(len(schedule.steps)):
        tree = _applied(model, Schedule(schedule.steps[:index]))
        if tree is None:
            continue
        for inner in loops(tree):
            for outer in reversed(around(tree, inner.name)):
                for factor in (1, 2):
                    yield _inserted(schedule, index, Skew(inner.name, outer.name, factor))


def _inserted(schedule: Schedule, index: int, *steps: Step) -> Schedule:
    return Schedule((*schedule.steps[:index], *steps, *schedule.steps[index:]))


def _applied(model: Model, schedule: Schedule) -> Node | None:
    try:
        return schedule.apply(model.nest)
    except StepError:
        return None


def _names_around_and_below(tree: Node, name: str) -> frozenset[str]:
    path = path_to(tree, name)
    if not path:
        return frozenset()
    return frozenset(node.name for node in path if isinstance(node, Loop)) | {loop.name for loop in loops(path[-1])}
