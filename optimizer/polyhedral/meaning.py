"""What a tree means, as text: the same for all schedules that come to the same order."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import islpy as isl

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.schedule import nest_of
from optimizer.polyhedral.tree import Leaf, Node, map_leaves, show


def meaning_of(nest: Nest, tree: Node) -> str:
    """The tree as text, the same for all ways that lead to it."""

    nest = nest_of(nest, tree)

    def canonical(leaf: Leaf) -> Leaf:
        instance = f"[{', '.join(nest.parameters)}] -> {{ {instance_tuple(nest, leaf.statement)}"
        values = {loop: _canonical_value(f"{instance} -> [{value}] }}") for loop, value in sorted(leaf.values.items())}
        return replace(leaf, values=values)

    return show(map_leaves(tree, canonical))


@lru_cache(maxsize=10_000)
def _canonical_value(function: str) -> str:
    """One text for all ways to write a loop's value: `-(-i)` is `i`."""
    return str(isl.PwMultiAff(function))
