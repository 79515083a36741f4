"""Gives the loops' variables the names that a reader of the schedule expects."""

from __future__ import annotations

from dataclasses import replace

from optimizer.codegen.affine import Affine, number, variable
from optimizer.codegen.loop_ast import Block, For, If, LoopNode, calls, substitute_names
from optimizer.codegen.module_text import free_name
from optimizer.polyhedral.nest import Nest


def name_iterators(node: LoopNode, nest: Nest, taken: frozenset[str]) -> LoopNode:
    """The same loops with their variables named after the schedule's loops; none has a name in `taken`.

    A variable whose value is not that of the source's loop of that name says so: `i_skewed` or `i_shifted`. A loop that
    runs over `-i` is turned to run over i, downwards.
    """
    match node:
        case Block(parts):
            return Block(tuple(name_iterators(part, nest, taken) for part in parts))
        case If(condition, then, otherwise):
            return If(
                condition,
                name_iterators(then, nest, taken),
                None if otherwise is None else name_iterators(otherwise, nest, taken),
            )
        case For():
            values = _source_values(node, nest)
            if values and all(value == variable(node.iterator).times(-1) for value in values):
                node = _turned(node)
                values = {variable(node.iterator)}
            name = free_name(node.name + _difference(values, variable(node.iterator)), taken)
            body = substitute_names(node.body, {node.iterator: variable(name)})
            return replace(node, iterator=name, body=name_iterators(body, nest, taken | {name}))
        case _:
            return node


def _difference(values: set[Affine], own: Affine) -> str:
    """What sets a loop's variable apart from the source's."""
    if values <= {own}:
        return ""
    return "_skewed" if any((value - own).terms for value in values) else "_shifted"


def _source_values(loop: For, nest: Nest) -> set[Affine]:
    """What the source's loop of that name is inside, in terms of this loop's variable."""
    found: set[Affine] = set()
    for call in calls(loop.body):
        iterators = nest.statement(call.statement).iterators
        found |= {value for name, value in zip(iterators, call.arguments, strict=True) if name == loop.name}
    return found


def _turned(loop: For) -> For:
    """Over the negated variable. A parallel loop keeps ascending, since its order is free."""
    body = substitute_names(loop.body, {loop.iterator: variable(loop.iterator).times(-1)})
    if loop.is_parallel and loop.step == 1:
        start = loop.stop.times(-1) + number(1)
        return replace(loop, start=start, stop=loop.start.times(-1) + number(1), body=body)
    return replace(loop, start=loop.start.times(-1), stop=loop.stop.times(-1), step=-loop.step, body=body)
