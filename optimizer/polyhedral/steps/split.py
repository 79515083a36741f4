"""The step `split`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.steps.arguments import KEYWORD, AffineText, LoopName
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.structure import (
    around,
    fresh_names,
    loop_named,
    rename_loops,
    tile_name,
    without_number,
)
from optimizer.polyhedral.steps.text import parse_affine
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves, loops, map_leaves, replace_loop, sequence_of


@dataclass(frozen=True, slots=True)
class Split(Step):
    """Run the iterations of a loop below a bound first, then the rest, in a loop of their own.

    args:
        loop: it and the loops inside keep their names in the first part; in the second all of them are copies, i
            called `i_2`.
        at: the first value of the second part: an affine expression of sizes and of the loops around.
    rewrite:
        for k: for i: S0   ->   for k: (for i < k + 1: S0; for i_2 >= k + 1: S0)        with split(i, at=k + 1)
    """

    name: ClassVar[str] = "split"
    loop: LoopName
    at: AffineText = field(metadata=KEYWORD)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", str(parse_affine(self.at)))

    def apply(self, nest: Nest, tree: Node) -> Node:
        loop = loop_named(tree, self.loop)
        at = parse_affine(self.at)
        known = [*(outer.name for outer in around(tree, self.loop)), *nest.parameters]
        for name in at.names():
            if name not in known:
                raise StepError(
                    f"{name} in the bound is neither a size nor a loop around {self.loop}; "
                    f"those are {', '.join(known) or 'none'}",
                    tuple(difflib.get_close_matches(name, known)),
                )

        def side(relation: str) -> Node:
            def limited(leaf: Leaf) -> Leaf:
                condition = f"{leaf.values[self.loop]} {relation} {at.in_isl(leaf.values)}"
                return replace(leaf, where=(*leaf.where, condition))

            kept = _without_empty_leaves(nest, map_leaves(loop, limited))
            if kept is None:
                raise StepError(f"no iteration has {self.loop} {relation} {self.at}: there is nothing to split")
            return kept

        first, second = side("<"), side(">=")
        inside = [inner.name for inner in loops(second)]
        copies = fresh_names(nest, tree, [without_number(name) for name in inside])
        second = rename_loops(second, dict(zip(inside, copies, strict=True)))
        return replace_loop(tree, self.loop, lambda _: sequence_of(first, second))

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Split]:
        """At the value of each loop around and after it, or at both ends of its tile; and at 1."""
        for loop in loops(tree):
            yield cls(loop.name, "1")
            for outer in around(tree, loop.name):
                if outer.name != tile_name(loop.name):
                    size = _tile_size(outer)
                    yield cls(loop.name, f"{size}*{outer.name}")
                    yield cls(loop.name, f"{size}*{outer.name} + {size}")


def _tile_size(loop: Loop) -> int:
    """Of a loop over tiles, how many values one has; 1 of any other loop."""
    sizes = {match[1] for leaf in leaves(loop) if (match := re.search(r"^floor\(.*/(\d+)\)$", leaf.values[loop.name]))}
    return int(sizes.pop()) if len(sizes) == 1 else 1


def _without_empty_leaves(nest: Nest, node: Node) -> Node | None:
    """The tree without leaves that have no iteration at any size, nor loops without leaves; None if nothing stays."""
    match node:
        case Leaf():
            return None if _is_empty(nest, node) else node
        case Loop():
            body = _without_empty_leaves(nest, node.body)
            return None if body is None else replace(node, body=body)
        case Sequence():
            parts = [kept for part in node.parts if (kept := _without_empty_leaves(nest, part)) is not None]
            return sequence_of(*parts) if parts else None


def _is_empty(nest: Nest, leaf: Leaf) -> bool:
    """Whether isl proves it; a leaf that is empty and stays does no harm."""
    import islpy as isl

    from optimizer.polyhedral.model import model_of, operation_limit
    from optimizer.polyhedral.order import instance_tuple

    conditions = " and ".join(f"({condition})" for condition in leaf.where)
    text = f"[{', '.join(nest.parameters)}] -> {{ {instance_tuple(nest, leaf.statement)} : {conditions} }}"
    domain = model_of(nest).domains[leaf.statement]
    try:
        with operation_limit():
            return domain.intersect(isl.Set(text)).is_empty()
    except isl.Error:
        return False
