"""A schedule as isl's schedule tree, and the loops that isl makes of it.

Above the band of each loop stands a mark `name@iterator`. The iterator, `c<depth>` with the number of loops around, is
what isl calls the variable of a loop at that depth, so the marks say which loop of the schedule an isl loop comes from.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import islpy as isl

from optimizer.codegen.isl_ast import loop_ast_of
from optimizer.codegen.loop_ast import LoopNode, walk
from optimizer.errors import CandidateError
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves, loops

MOST_OPERATIONS = 2_000_000
"""Of isl for one candidate: some ten seconds; the largest time-tiled stencils need two thirds of it."""
SEPARATED_NODES = 400
"""The largest loop AST for which innermost loops are separated so that no guards stay inside."""


@dataclass(frozen=True, slots=True)
class _TreeText:
    """What every part of the schedule tree's text needs."""

    nest: Nest
    iterators: tuple[str, ...]
    """isl's variables by depth."""
    separates: bool
    whole: AbstractSet[str] = frozenset()
    """Loops that isl must not cut in pieces."""

    def quoted(self, pieces: Items[str], around: str = "{}") -> str:
        inside = "{ " + "; ".join(dict.fromkeys(pieces)) + " }"
        return f'"[{", ".join(self.nest.parameters)}] -> {around.format(inside)}"'

    def filter_of(self, node: Node) -> str:
        return self.quoted([f"{instance_tuple(self.nest, leaf.statement)}{_condition(leaf)}" for leaf in leaves(node)])

    def node(self, node: Node, depth: int) -> str | None:
        """The tree's text; None for a leaf, which has no node of its own."""
        match node:
            case Leaf():
                return None
            case Sequence(parts):
                filters = (
                    _mapping(filter=self.filter_of(part), child=self.node(part, depth))
                    for part in parts
                    if any(leaves(part))
                )
                return "{ sequence: [" + ", ".join(filters) + "] }"
            case Loop():
                band = _mapping(
                    schedule=self._band(node),
                    options=self._options(node),
                    child=self.node(node.body, depth + 1),
                )
                return _mapping(mark=f'"{node.name}@{self.iterators[depth]}"', child=band)

    def _options(self, loop: Loop) -> str | None:
        if loop.name in self.whole:
            return '"{ atomic[x] }"'
        return '"{ separate[x] }"' if self.separates and _wants_separation(loop) else None

    def _band(self, loop: Loop) -> str:
        return self.quoted(
            [
                f"{instance_tuple(self.nest, leaf.statement)} -> [({leaf.values[loop.name]})]{_condition(leaf)}"
                for leaf in leaves(loop)
            ],
            around="[{}]",
        )


def _condition(leaf: Leaf) -> str:
    return f" : {' and '.join(f'({condition})' for condition in leaf.where)}" if leaf.where else ""


def _mapping(**entries: str | None) -> str:
    return "{ " + ", ".join(f"{key}: {text}" for key, text in entries.items() if text is not None) + " }"


def _wants_separation(loop: Loop) -> bool:
    return isinstance(loop.body, Sequence) and not any(loops(loop.body))


def schedule_text(
    nest: Nest, tree: Node, domain: str, separates: bool = False, whole: AbstractSet[str] = frozenset()
) -> str:
    """isl's text of the schedule; `domain` is the union of all leaves' iterations."""
    return _mapping(domain=f'"{domain}"', child=_TreeText(nest, _iterators(nest, tree), separates, whole).node(tree, 0))


def instances(nest: Nest, leaf: Leaf) -> Any:
    """The iterations that run at a leaf, as an isl set."""
    text = _TreeText(nest, (), separates=False)
    where = isl.Set(text.filter_of(leaf).strip('"'))
    return isl.Set(nest.statement(leaf.statement).domain).intersect(where)


def generate_loops(nest: Nest, tree: Node, whole: AbstractSet[str] = frozenset()) -> LoopNode:
    """The loops that run a schedule; those called as in `whole` are not cut in pieces.

    Raises CandidateError when isl needs more operations than it may take.
    """
    try:
        with operation_limit(MOST_OPERATIONS):
            separated = _build(nest, tree, whole, separates=True)
            is_small = sum(1 for _ in walk(separated)) <= SEPARATED_NODES
            return separated if is_small else _build(nest, tree, whole, separates=False)
    except isl.Error as error:
        raise CandidateError(f"code generation gave up: {error}") from error


def _build(nest: Nest, tree: Node, whole: AbstractSet[str], separates: bool) -> LoopNode:
    isl.DEFAULT_CONTEXT.set_ast_build_detect_min_max(True)
    domain = isl.UnionSet("{ }")
    for leaf in leaves(tree):
        domain = domain.union(isl.UnionSet.from_set(instances(nest, leaf)))
    schedule = isl.Schedule(schedule_text(nest, tree, str(domain), separates, whole))
    iterators = isl.IdList.alloc(isl.DEFAULT_CONTEXT, 0)
    for name in _iterators(nest, tree):
        iterators = iterators.add(isl.Id(name))
    build = isl.AstBuild.from_context(isl.Set(nest.context)).set_iterators(iterators)
    return loop_ast_of(build.node_from_schedule(schedule), {loop.name: loop for loop in loops(tree)})


def _iterators(nest: Nest, tree: Node) -> tuple[str, ...]:
    """`c0`, `c1`, ..., or with underscores when a parameter has such a name: isl would take them for the same."""
    stem = "c"
    while any(name.startswith(stem) and name[len(stem) :].isdigit() for name in nest.parameters):
        stem += "_"
    return tuple(f"{stem}{depth}" for depth in range(sum(1 for _ in loops(tree))))
