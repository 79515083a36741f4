"""A brute-force judge of schedules: lists every access in the original and in the new order. Slow, simple, independent.

It shares nothing with `optimizer.polyhedral.legality` but the texts of the nest: isl only enumerates the points of the
domains; subscripts and loop values are evaluated by Python, one iteration at a time.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import islpy as isl

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import TimedLeaf, timed_leaves
from optimizer.polyhedral.reductions import free_reduction
from optimizer.polyhedral.tree import WIDEST_VECTOR, Loop, Node, loops
from optimizer.polyhedral.witness import Fault, Witness

Iteration = tuple[str, tuple[int, ...]]
"""A statement's name and the values of its iterators."""


@lru_cache(maxsize=100_000)
def compiled(text: str) -> Any:
    """isl's quasi-affine syntax as a Python expression: 2n -> 2*n, floor(a/b) -> (a)//b, `mod` -> %, = -> ==."""
    text = re.sub(r"\b(\d+)([A-Za-z_(])", r"\1*\2", text)
    text = re.sub(r"\bmod\b", "%", text)
    text = re.sub(r"(?<![<>=!])=(?!=)", "==", text)
    text = text.replace("floor(", "(").replace("/", "//")
    return compile(text, text, "eval")


def evaluate(text: str, names: dict[str, int]) -> Any:
    return eval(compiled(text), {"__builtins__": {}}, names)


@dataclass
class Trace:
    """All iterations of a nest at fixed sizes in original order, with what each touches."""

    nest: Nest
    sizes: dict[str, int]
    iterations: list[Iteration]
    touched: dict[Iteration, list[tuple[str, tuple[int, ...], bool]]]
    conflicts: list[tuple[Iteration, Iteration]]

    def names(self, iteration: Iteration) -> dict[str, int]:
        return self.sizes | dict(zip(self.nest.statement(iteration[0]).iterators, iteration[1], strict=True))


def trace(nest: Nest, sizes: dict[str, int]) -> Trace:
    """Enumerate the nest at these sizes."""
    result = Trace(nest, sizes, [], {}, [])
    fixed = isl.Set(f"[{', '.join(sizes)}] -> {{ : {' and '.join(f'{k} = {v}' for k, v in sizes.items()) or 'true'} }}")
    for statement in nest.statements:
        points: list[tuple[int, ...]] = []
        domain = isl.Set(statement.domain).intersect_params(fixed)
        count = len(statement.iterators)

        def note(point: Any, points: list[tuple[int, ...]] = points, count: int = count) -> None:
            points.append(tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count)))

        domain.foreach_point(note)
        for point in points:
            iteration = (statement.name, point)
            result.iterations.append(iteration)
            names = result.names(iteration)
            result.touched[iteration] = [
                (access.array, tuple(evaluate(s, names) for s in access.subscripts), access.is_write)
                for access in statement.accesses
            ]
    times = timestamps(result, nest.tree)
    result.iterations.sort(key=lambda iteration: times[iteration])
    by_element: dict[tuple[str, tuple[int, ...]], list[tuple[Iteration, bool]]] = defaultdict(list)
    for iteration in result.iterations:
        for array, element, is_write in result.touched[iteration]:
            by_element[array, element].append((iteration, is_write))
    pairs: dict[tuple[Iteration, Iteration], None] = {}
    for users in by_element.values():
        for k, (first, first_writes) in enumerate(users):
            for second, second_writes in users[k + 1 :]:
                if first != second and (first_writes or second_writes):
                    pairs[first, second] = None
    result.conflicts = list(pairs)
    return result


def leaf_of(trace: Trace, leaves: tuple[TimedLeaf, ...], iteration: Iteration) -> TimedLeaf:
    names = trace.names(iteration)
    found = [
        timed
        for timed in leaves
        if timed.leaf.statement == iteration[0] and all(evaluate(c, names) for c in timed.leaf.where)
    ]
    assert len(found) == 1, f"{iteration} runs {len(found)} times"
    return found[0]


def timestamps(trace: Trace, tree: Node) -> dict[Iteration, tuple[int, ...]]:
    leaves = timed_leaves(tree)
    result: dict[Iteration, tuple[int, ...]] = {}
    for iteration in trace.iterations:
        names = trace.names(iteration)
        result[iteration] = tuple(evaluate(t, names) for t in leaf_of(trace, leaves, iteration).time)
    return result


def is_legal(trace: Trace, tree: Node) -> bool:
    """Whether the tree keeps the order of every conflicting pair, none of them in two iterations of a parallel loop,
    also when vectorized loops run a vector at a time, wherever their vectors begin; and no copy is stale.

    What reduces one element may do so in any order in iterations of marked loops, if nothing else sees partial results.
    """
    times = timestamps(trace, tree)
    leaves = timed_leaves(tree)
    levels = {iteration: leaf_of(trace, leaves, iteration).levels for iteration in trace.iterations}
    marked = {loop.name for loop in loops(tree) if loop.partials != 1}
    parallel = {loop.name for loop in loops(tree) if loop.is_parallel}
    free = {pair for pair in trace.conflicts if marked and reduces_alike(trace, *pair)}
    parting = {pair: parting_loop(times, levels, *pair) for pair in trace.conflicts}
    for first, second in trace.conflicts:
        is_free = (first, second) in free and parting[first, second] in marked
        if not is_free and (times[first] >= times[second] or parting[first, second] in parallel):
            return False
    for loop in loops(tree):
        partial: set[str] = set()
        if loop.name in marked and loop.vector != 1:
            partial = {name for name in {name for name, _ in levels} if is_still(trace, times, levels, loop.name, name)}
        elif loop.name in marked and loop.is_parallel:
            partial = {name for pair in free if parting[pair] == loop.name for name, _ in pair}
        inside = {iteration for iteration in levels if loop.name in levels[iteration]}
        for pair in trace.conflicts if partial else ():
            is_combined = pair in free and {name for name, _ in pair} <= partial
            is_together = inside.issuperset(pair) and are_together(times, levels, loop.name, *pair)
            if is_together and not is_combined and sees(trace, partial, *pair):
                return False
        for order in vector_orders(loop, levels, times):
            for pair in trace.conflicts:
                first, second = sorted(pair, key=times.__getitem__)
                is_combined = pair in free and {name for name, _ in pair} <= partial
                if not is_combined and order[first] >= order[second]:
                    return False
    return packs_are_right(trace, tree, times)


Times = dict[Iteration, tuple[int, ...]]
Levels = dict[Iteration, tuple[str | None, ...]]


def parting_loop(times: Times, levels: Levels, first: Iteration, second: Iteration) -> str | None:
    """The loop in two iterations of which they are, where no sequence and no loop around sets them apart."""
    pairs = enumerate(zip(times[first], times[second], strict=False))
    return next((levels[first][depth] for depth, (one, other) in pairs if one != other), None)


def are_together(times: Times, levels: Levels, loop: str, first: Iteration, second: Iteration) -> bool:
    """Whether two iterations in a loop are in one iteration of all loops around it."""
    depth = levels[first].index(loop)
    return times[first][:depth] == times[second][:depth]


def reduced(trace: Trace, iteration: Iteration) -> tuple[str, tuple[int, ...]] | None:
    """The element that a statement whose order is free combines something with."""
    reduction = free_reduction(trace.nest, trace.nest.statement(iteration[0]))
    if reduction is None:
        return None
    return reduction.array, tuple(evaluate(text, trace.names(iteration)) for text in reduction.subscripts)


def read_besides(trace: Trace, iteration: Iteration) -> set[tuple[str, tuple[int, ...]]]:
    """The elements that it reads, its own only if it does so in other words."""
    statement = trace.nest.statement(iteration[0])
    own = next(access.subscripts for access in statement.accesses if access.is_write)
    uses = zip(statement.accesses, trace.touched[iteration], strict=True)
    return {(array, element) for access, (array, element, _) in uses if access.subscripts != own}


def reduces_alike(trace: Trace, first: Iteration, second: Iteration) -> bool:
    """Whether the two combine something with one element by one operator, and conflict about nothing else."""
    one, other = (free_reduction(trace.nest, trace.nest.statement(name)) for name, _ in (first, second))
    element = reduced(trace, first)
    if one is None or other is None or one.operator is not other.operator or element != reduced(trace, second):
        return False
    return element not in read_besides(trace, first) | read_besides(trace, second)


def is_still(trace: Trace, times: Times, levels: Levels, loop: str, name: str) -> bool:
    """Whether a statement in a loop reduces the same element in all its iterations."""
    found: dict[tuple[int, ...], set[object]] = defaultdict(set)
    for iteration in trace.iterations:
        if iteration[0] == name and loop in levels[iteration]:
            depth = levels[iteration].index(loop)
            time = times[iteration]
            found[*time[:depth], *time[depth + 1 :]].add(reduced(trace, iteration))
    return all(len(elements) == 1 and elements != {None} for elements in found.values())


def sees(trace: Trace, partial: set[str], first: Iteration, second: Iteration) -> bool:
    """Whether one of the two uses the element of which the other has a partial result."""
    pairs = ((first, second), (second, first))
    return any(
        one[0] in partial and reduced(trace, one) in {(array, element) for array, element, _ in trace.touched[other]}
        for one, other in pairs
    )


def packs_are_right(trace: Trace, tree: Node, times: dict[Iteration, tuple[int, ...]]) -> bool:
    """Whether what register tiles read of an array that is packed before a loop is never written between the loop's
    start and the read; and whether no statement in a parallel loop around it writes to the array at all."""
    leaves = timed_leaves(tree)
    levels = {iteration: leaf_of(trace, leaves, iteration).levels for iteration in trace.iterations}
    for loop in loops(tree):
        in_loop = [timed for timed in leaves if loop.name in timed.levels]
        around = in_loop[0].levels[: in_loop[0].levels.index(loop.name)]
        threads = {each.name for each in loops(tree) if each.is_parallel} & set(around)
        beside = {timed.leaf.statement for timed in leaves if threads & set(timed.levels)}
        columns = {each.name for each in loops(loop) if each.unroll == 0 and each.vector != 1}
        in_tiles = {timed.leaf.statement for timed in in_loop if columns & set(timed.levels)}
        for array in loop.packs:
            if any(a.array == array and a.is_write for name in beside for a in trace.nest.statement(name).accesses):
                return False
            written: dict[tuple[int, ...], set[tuple[int, ...]]] = defaultdict(set)
            for iteration in sorted(trace.iterations, key=lambda iteration: times[iteration]):
                if loop.name not in levels[iteration]:
                    continue
                run = written[times[iteration][: len(around)]]
                accesses = trace.nest.statement(iteration[0]).accesses
                own = {access.subscripts for access in accesses if access.is_write and access.array == array}
                uses = list(zip(accesses, trace.touched[iteration], strict=True))
                for access, (name, element, is_write) in uses:
                    is_copied = iteration[0] in in_tiles and not is_write and access.subscripts not in own
                    if name == array and is_copied and element in run:
                        return False
                run |= {element for _, (name, element, is_write) in uses if name == array and is_write}
    return True


def vector_orders(loop: Loop, levels: Levels, times: Times) -> Iterator[Times]:
    """What vector code makes of the order: all lanes of a vector run a statement before any runs the next one, the
    last lane first; for each place where the first vector may begin."""
    lanes = (loop.vector or WIDEST_VECTOR) if loop.vector != 1 else 0
    for begin in range(lanes):
        order = dict(times)
        for iteration, time in times.items():
            if loop.name in levels[iteration]:
                depth = levels[iteration].index(loop.name)
                vector, lane = divmod(time[depth] - begin, lanes)
                order[iteration] = (*time[:depth], vector, *time[depth + 1 :], -lane)
        yield order


def is_violated(nest: Nest, tree: Node, witness: Witness) -> bool:
    """Whether the witness is what it says: a pair in the original order, in conflict over the element, broken here."""
    run = Trace(nest, witness.sizes, [], {}, [])
    first: Iteration = (witness.source, tuple(witness.source_iteration.values()))
    second: Iteration = (witness.sink, tuple(witness.sink_iteration.values()))
    run.iterations = [first, second]
    for iteration in run.iterations:
        statement = nest.statement(iteration[0])
        fixed = [f"{k} = {v}" for k, v in witness.sizes.items()]
        fixed += [f"{k} = {v}" for k, v in zip(statement.iterators, iteration[1], strict=True)]
        point = f"[{', '.join(witness.sizes)}] -> {{ {statement.name}[{', '.join(statement.iterators)}] : "
        if isl.Set(statement.domain).intersect(isl.Set(f"{point}{' and '.join(fixed) or 'true'} }}")).is_empty():
            return False
    uses = [
        {
            access.is_write
            for access in nest.statement(iteration[0]).accesses
            if access.array == witness.array
            and tuple(evaluate(s, run.names(iteration)) for s in access.subscripts) == witness.element
        }
        for iteration in run.iterations
    ]
    needed = {"RAW": (True, False), "WAR": (False, True), "WAW": (True, True)}[witness.kind]
    if not (needed[0] in uses[0] and needed[1] in uses[1]):
        return False
    original = timestamps(run, nest.tree)
    if original[first] >= original[second]:
        return False
    times = timestamps(run, tree)
    if witness.fault is Fault.ORDER:
        return times[first] >= times[second]
    depth = leaf_of(run, timed_leaves(tree), first).levels.index(witness.loop)
    if times[first][:depth] != times[second][:depth]:
        return False
    if witness.fault is Fault.PARTIAL:
        return next(loop.partials != 1 for loop in loops(tree) if loop.name == witness.loop)
    if witness.fault is Fault.STALE:
        packed = next(loop.packs for loop in loops(tree) if loop.name == witness.loop)
        return any(access.array in packed and access.is_write for access in nest.statement(witness.source).accesses)
    apart = abs(times[first][depth] - times[second][depth])
    if witness.fault is Fault.RACE:
        return apart > 0
    (lanes,) = (loop.vector or WIDEST_VECTOR for loop in loops(tree) if loop.name == witness.loop)
    return 0 < apart < lanes
