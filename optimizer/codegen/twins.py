"""Statements that do the same in different parts of one iteration space, as one statement.

LU updates elements below and above the diagonal by two statements of the same text. Where a schedule runs them in the
same loops, one register tile can cover both.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from optimizer.codegen.naming import free_name
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, sequence_of


def with_twins_merged(nest: Nest, tree: Node) -> tuple[Nest, Node]:
    """The nest with a statement more for each pair of neighbours in a register tile that is merged, and the tree that
    has it in their place.
    """
    match tree:
        case Leaf():
            return nest, tree
        case Sequence(parts):
            found: list[Node] = []
            for part in parts:
                nest, part = with_twins_merged(nest, part)
                found.append(part)
            return nest, sequence_of(*found) if found else tree
        case Loop(vector=1) | Loop(unroll=1):
            nest, body = with_twins_merged(nest, tree.body)
            return nest, replace(tree, body=body)
        case Loop():
            parts: tuple[Node, ...] = tree.body.parts if isinstance(tree.body, Sequence) else (tree.body,)
            merged: list[Node] = [parts[0]]
            for part in parts[1:]:
                last = merged[-1]
                pair = _merged(nest, last, part) if isinstance(last, Leaf) and isinstance(part, Leaf) else None
                if pair is None:
                    merged.append(part)
                else:
                    nest, merged[-1] = pair
            return nest, replace(tree, body=sequence_of(*merged))


def _merged(nest: Nest, first: Leaf, second: Leaf) -> tuple[Nest, Leaf] | None:
    """None unless both do the same, each iteration at the time at which the other's of the same subscripts would run,
    and no iteration of one is one of the other.
    """
    one, other = nest.statement(first.statement), nest.statement(second.statement)
    if len(one.iterators) != len(other.iterators):
        return None
    names = dict(zip(other.iterators, one.iterators, strict=True))
    if _texts_of(one, first, {}) != _texts_of(other, second, names):
        return None
    here, there = isl.Set(one.domain), isl.Set(other.domain).set_tuple_name(one.name)
    if not here.is_disjoint(there):
        return None
    name = free_name(f"{one.name}_and_{other.name}", {statement.name for statement in nest.statements})
    domain = str(here.union(there).coalesce().set_tuple_name(name))
    nest = replace(nest, statements=(*nest.statements, replace(one, name=name, domain=domain)))
    return nest, replace(first, statement=name)


def _texts_of(statement: Statement, leaf: Leaf, names: Mapping[str, str]) -> object:
    """All that a statement does and when, with its iterators renamed."""

    def renamed(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)

    return (
        ast.unparse(ast.parse(renamed(statement.body))),
        [(a.array, a.is_write, tuple(map(renamed, a.subscripts))) for a in statement.accesses],
        {loop: renamed(value) for loop, value in leaf.values.items()},
        {renamed(condition) for condition in leaf.where},
    )
