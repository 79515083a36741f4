"""Is a tree legal, asked of two leaves at a time, and no question twice: for those who try hundreds of trees.

What two leaves say about the order of their iterations is the values of the loops that both are in, and which of them
comes first in there. Most moves leave that as it is for most pairs, so that an earlier tree has the answer. An answer
depends on nothing but what its question consists of, and each question has an operation limit of its own (reading a
relation from its text takes nothing worth counting), so that no answer depends on what was asked before. No verdict
comes from here: a finished schedule is judged anew, as a whole, by `legality`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.legality import Legal, can_be_parallel, coverage_fault, judge
from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.order import TimedLeaf, instance_tuple, timed_leaves
from optimizer.polyhedral.packing import packing_fault, stale_reads
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.tree import WIDEST_VECTOR, Loop, Node, find_loop, loops


def is_legal(model: Model, tree: Node) -> bool:
    """Whether a tree is proved to be legal, as `judge` would say."""
    if any(loop.partials != 1 for loop in loops(tree)):
        return judge(model, tree).legal is Legal.YES
    model, timed = model_for(model, tree), timed_leaves(tree)
    return (
        _runs_all_once(model, timed)
        and all(_keeps_order(model, pair) for pair in _pairs(model, timed))
        and all(_has_no_race(model, timed, loop) for loop in loops(tree) if loop.is_parallel)
        and all(_keeps_order_of_lanes(model, timed, loop) for loop in loops(tree) if loop.vector != 1)
        and (not any(loop.packs for loop in loops(tree)) or _reads_fresh_copies(model, tree, timed))
    )


def carries_nothing(model: Model, tree: Node, loop: str) -> bool:
    """Whether a loop can run on threads as the tree stands, as `can_be_parallel` would say."""
    found = find_loop(tree, loop)
    assert found is not None
    if found.partials != 1:
        return can_be_parallel(model, tree, loop)
    return _has_no_race(model_for(model, tree), timed_leaves(tree), found)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two leaves whose iterations conflict, the source in one and the sink in the other."""

    conflicts: int
    """Their place among the model's `conflict_maps`."""
    source: TimedLeaf
    sink: TimedLeaf

    def common(self) -> tuple[int, int]:
        """Up to which entry of their timestamps they are in the same loops; and -1, 0 or 1 where the source stands
        before the sink there, is the same leaf, or stands behind it."""
        if self.source is self.sink:
            return len(self.source.time), 0
        entries = zip(self.source.levels, self.source.time, self.sink.time, strict=False)
        for place, (level, first, second) in enumerate(entries):
            if level is None and first != second:
                return place, -1 if int(first) < int(second) else 1
        raise AssertionError("two leaves are at the same place")


def _pairs(model: Model, timed: Sequence[TimedLeaf]) -> Iterator[_Pair]:
    leaves: dict[str, list[TimedLeaf]] = {}
    for leaf in timed:
        leaves.setdefault(leaf.leaf.statement, []).append(leaf)
    for place, (first, second) in enumerate(_statements(model)):
        for source in leaves.get(first, ()):
            for sink in leaves.get(second, ()):
                yield _Pair(place, source, sink)


def _statements(model: Model) -> tuple[tuple[str, str], ...]:
    """Of each of the model's `conflict_maps`."""
    if "statements" not in model.remembered:
        with operation_limit():
            pairs = model.conflict_maps
        first, second = (
            [str(each.get_tuple_name(end)) for each in pairs] for end in (isl.dim_type.in_, isl.dim_type.out)
        )
        model.remembered["statements"] = tuple(zip(first, second, strict=True))
    return model.remembered["statements"]


def _values(leaf: TimedLeaf, first: int, last: int) -> tuple[str, ...]:
    """What the loops among some entries of a timestamp are."""
    return tuple(leaf.time[k] for k in range(first, last) if leaf.levels[k] is not None)


def _keeps_order(model: Model, pair: _Pair) -> bool:
    end, side = pair.common()
    values = _values(pair.source, 0, end), _values(pair.sink, 0, end)
    question = ("order", pair.conflicts, pair.source.leaf.where, pair.sink.leaf.where, *values, side < 0)
    if question not in model.remembered:
        with _Asking(model, question):
            violated = _conflicts(model, pair)
            if not violated.is_empty() and (values[0] or side < 0):
                source, sink = (_times(model, *each) for each in zip(_names(pair), values, strict=True))
                late = source.lex_gt_map(sink) if side < 0 else source.lex_ge_map(sink)
                violated = violated.intersect(late)
            model.remembered[question] = violated.is_empty()
    return model.remembered[question]


def _has_no_race(model: Model, timed: Sequence[TimedLeaf], loop: Loop) -> bool:
    inside = [leaf for leaf in timed if loop.name in leaf.levels]
    depth = inside[0].levels.index(loop.name)
    return all(_is_carried_by_others(model, pair, depth) for pair in _pairs(model, inside))


def _is_carried_by_others(model: Model, pair: _Pair, depth: int) -> bool:
    """Whether no conflict is between two iterations of the loop at that entry within one of the loops around."""
    outer = _values(pair.source, 0, depth), _values(pair.sink, 0, depth)
    own = pair.source.time[depth], pair.sink.time[depth]
    question = ("race", pair.conflicts, pair.source.leaf.where, pair.sink.leaf.where, *outer, *own)
    if question not in model.remembered:
        with _Asking(model, question):
            carried = _within(model, pair, outer)
            if not carried.is_empty():
                carried = carried.subtract(_same(model, pair, ((own[0],), (own[1],))))
            model.remembered[question] = carried.is_empty()
    return model.remembered[question]


def _keeps_order_of_lanes(model: Model, timed: Sequence[TimedLeaf], loop: Loop) -> bool:
    inside = [leaf for leaf in timed if loop.name in leaf.levels]
    depth = inside[0].levels.index(loop.name)
    width = max(len(leaf.time) for leaf in inside) - depth - 1
    lanes = loop.vector or WIDEST_VECTOR
    return all(_stands_before(model, pair, depth, width, lanes) for pair in _pairs(model, inside))


def _stands_before(model: Model, pair: _Pair, depth: int, width: int, lanes: int) -> bool:
    """Whether in each conflict of less than `lanes` iterations of the loop at that entry the source comes first in what
    one iteration runs; `width`: how many entries that is about."""
    outer = _values(pair.source, 0, depth), _values(pair.sink, 0, depth)
    own = pair.source.time[depth], pair.sink.time[depth]
    rest = tuple((*leaf.time[depth + 1 :], *["0"] * width)[:width] for leaf in (pair.source, pair.sink))
    question = ("lanes", pair.conflicts, pair.source.leaf.where, pair.sink.leaf.where, *outer, *own, *rest, lanes)
    if question not in model.remembered:
        with _Asking(model, question):
            broken = _within(model, pair, outer)
            if not broken.is_empty():
                near = isl.Map(f"{{ [a] -> [b] : 0 < b - a < {lanes} }}")
                source, sink = (_times(model, name, (value,)) for name, value in zip(_names(pair), own, strict=True))
                broken = broken.intersect(source.apply_range(near).apply_range(sink.reverse()))
            if not broken.is_empty() and width:
                source, sink = (_times(model, *each) for each in zip(_names(pair), rest, strict=True))
                broken = broken.intersect(source.lex_ge_map(sink))
            model.remembered[question] = broken.is_empty()
    return model.remembered[question]


def _runs_all_once(model: Model, timed: Sequence[TimedLeaf]) -> bool:
    conditions: dict[str, list[tuple[str, ...]]] = {name: [] for name in model.domains}
    for leaf in timed:
        conditions[leaf.leaf.statement].append(leaf.leaf.where)
    for name, parts in conditions.items():
        question = ("coverage", name, *parts)
        if question not in model.remembered:
            with _Asking(model, question):
                model.remembered[question] = not coverage_fault(model, name, parts)
        if not model.remembered[question]:
            return False
    return True


def _reads_fresh_copies(model: Model, tree: Node, timed: tuple[TimedLeaf, ...]) -> bool:
    if packing_fault(model.nest, tree):
        return False
    try:
        with operation_limit():
            return all(stale.is_empty() for _, stale in stale_reads(model, tree, timed))
    except isl.Error:
        return False


class _Asking:
    """Within it, isl may do what one question may take; a question that takes more is answered with no."""

    def __init__(self, model: Model, question: Hashable) -> None:
        self.model, self.question = model, question
        self.limit = operation_limit()

    def __enter__(self) -> None:
        # With a limit of its own, so that no answer depends on which question was the first one.
        with operation_limit():
            _ = self.model.conflict_maps
        self.limit.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.limit.__exit__(None, None, None)
        if kind is not None and issubclass(kind, isl.Error):
            self.model.remembered[self.question] = False
            return True
        return False


def _names(pair: _Pair) -> tuple[str, str]:
    return pair.source.leaf.statement, pair.sink.leaf.statement


def _conflicts(model: Model, pair: _Pair) -> isl.Map:
    """Those between the iterations of the two leaves."""
    pairs = model.conflict_maps[pair.conflicts]
    if pair.source.leaf.where:
        pairs = pairs.intersect_domain(_part(model, pair.source))
    if pair.sink.leaf.where:
        pairs = pairs.intersect_range(_part(model, pair.sink))
    return pairs


def _part(model: Model, leaf: TimedLeaf) -> isl.Set:
    """The iterations that satisfy a leaf's conditions."""
    question = ("part", leaf.leaf.statement, leaf.leaf.where)
    if question not in model.remembered:
        where = " and ".join(f"({condition})" for condition in leaf.leaf.where)
        text = f"{{ {instance_tuple(model.nest, leaf.leaf.statement)} : {where} }}"
        model.remembered[question] = isl.Set(f"[{', '.join(model.nest.parameters)}] -> {text}")
    return model.remembered[question]


def _within(model: Model, pair: _Pair, outer: tuple[tuple[str, ...], tuple[str, ...]]) -> isl.Map:
    """The conflicts within one iteration of some loops."""
    found = _conflicts(model, pair)
    return found.intersect(_same(model, pair, outer)) if outer[0] and not found.is_empty() else found


def _same(model: Model, pair: _Pair, values: tuple[tuple[str, ...], tuple[str, ...]]) -> isl.Map:
    source, sink = (_times(model, *each) for each in zip(_names(pair), values, strict=True))
    return source.apply_range(sink.reverse())


def _times(model: Model, statement: str, values: tuple[str, ...]) -> isl.Map:
    """From the iterations of a statement to some values in them."""
    question = ("times", statement, values)
    if question not in model.remembered:
        text = f"{{ {instance_tuple(model.nest, statement)} -> [{', '.join(values)}] }}"
        model.remembered[question] = isl.Map(f"[{', '.join(model.nest.parameters)}] -> {text}")
    return model.remembered[question]
