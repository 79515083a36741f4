"""The order in which a tree runs the iterations of a nest, as isl relations from iterations to timestamps."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence


@dataclass(frozen=True, slots=True)
class TimedLeaf:
    """A leaf with its place: the isl expressions of its timestamp and which entries of that are loops."""

    leaf: Leaf
    time: tuple[str, ...]
    """Positions in sequences (integers) and values of loops, outermost first."""
    levels: tuple[str | None, ...]
    """For each entry of `time` the loop it belongs to; None for a position in a sequence."""


def timed_leaves(tree: Node) -> tuple[TimedLeaf, ...]:
    """Every leaf of the tree with its timestamp."""
    found: list[TimedLeaf] = []

    def visit(node: Node, positions: tuple[int | str, ...]) -> None:
        match node:
            case Leaf():
                time = tuple(str(p) if isinstance(p, int) else f"({node.values[p]})" for p in positions)
                levels = tuple(p if isinstance(p, str) else None for p in positions)
                found.append(TimedLeaf(node, time, levels))
            case Loop():
                visit(node.body, (*positions, node.name))
            case Sequence():
                for index, part in enumerate(node.parts):
                    visit(part, (*positions, index))

    visit(tree, ())
    return tuple(found)


def instance_tuple(nest: Nest, statement: str) -> str:
    """The isl tuple of a statement's iterations: `S0[i, j]`."""
    return f"{statement}[{', '.join(nest.statement(statement).iterators)}]"


def relation_text(nest: Nest, leaves: tuple[TimedLeaf, ...], entries: slice = slice(None)) -> str:
    """isl text of the relation from the iterations of these leaves to (some entries of) their timestamps.

    Timestamps of unequal length are padded with zeros: two leaves differ in a sequence position before their lengths
    do.
    """
    width = max((len(timed.time[entries]) for timed in leaves), default=0)
    terms: list[str] = []
    for timed in leaves:
        time = timed.time[entries]
        padded = ", ".join((*time, *("0" for _ in range(width - len(time)))))
        condition = f" : {' and '.join(f'({c})' for c in timed.leaf.where)}" if timed.leaf.where else ""
        terms.append(f"{instance_tuple(nest, timed.leaf.statement)} -> [{padded}]{condition}")
    return f"[{', '.join(nest.parameters)}] -> {{ {'; '.join(terms)} }}"


def order_map(nest: Nest, tree: Node) -> isl.UnionMap:
    """Every iteration of the nest with its timestamp: a runs before b when time(a) is lexicographically less.

    The tree may have leaves of statements that are not in the nest: they take time, and are left out.
    """
    names = {statement.name for statement in nest.statements}
    timed = tuple(each for each in timed_leaves(tree) if each.leaf.statement in names)
    domain = isl.UnionSet(f"[{', '.join(nest.parameters)}] -> {{ }}")
    for statement in nest.statements:
        domain = domain.union(isl.UnionSet(statement.domain))
    return isl.UnionMap(relation_text(nest, timed)).intersect_domain(domain)
