"""Keeps in a variable what an innermost loop writes to the same place in each iteration, in terms of the loop AST.

    for j: x[i] += A[i, j] * y[j]

A compiler that cannot tell the arrays apart stores `x[i]` in every iteration, and loads it again in the next. Here a
variable takes its place, loaded before the loop and stored after it. That changes nothing if the loop has an iteration
and no other access of it touches the element, which isl proves on the very subscripts and bounds that are printed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from optimizer.codegen.affine import Affine, AllOf, Comparison, Relation, names_in
from optimizer.codegen.facts import Facts
from optimizer.codegen.loop_ast import Bind, Block, Call, For, HeldElement, If, LoopNode
from optimizer.codegen.naming import free_name
from optimizer.codegen.point_loops import not_empty
from optimizer.codegen.statement_text import affine_of, indices_of, parsed
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement

HELD_DTYPE = "float64"
"""What is added to such an element is one too, so that a variable rounds as the element does."""


@dataclass(frozen=True, slots=True)
class Element:
    array: str
    subscripts: tuple[Affine, ...]


def hold_elements(node: LoopNode, nest: Nest, in_memory: AbstractSet[str], taken: AbstractSet[str]) -> LoopNode:
    """The same loops with elements in variables, where that is proved to change nothing.

    `in_memory` are the scalars that are no variables themselves; names in `taken` are not free.
    """
    iterators = {name for statement in nest.statements for name in statement.iterators}
    return _Holder(nest, in_memory, {*taken, *iterators}).node(node, Facts.of(nest))


@dataclass(frozen=True, slots=True)
class _Holder:
    nest: Nest
    in_memory: AbstractSet[str]
    """The scalars that are no variables."""
    taken: set[str]
    """Names that are not free: no two loops share a variable."""

    def node(self, node: LoopNode, facts: Facts) -> LoopNode:
        match node:
            case Block(parts):
                return Block(tuple(self._parts(parts, facts)))
            case If(condition, then, otherwise):
                other = None if otherwise is None else self.node(otherwise, facts)
                return If(condition, self.node(then, facts.and_that(condition)), other)
            case For():
                calls = _calls_only(node)
                is_opaque = any(self.nest.statement(call.statement).opaque for call in calls or ())
                if calls is None or is_opaque or node.is_parallel or node.vector != 1 or node.step < 0:
                    return replace(node, body=self.node(node.body, facts.and_in(node)))
                return self._holding(node, calls, facts)
            case _:
                return node

    def _parts(self, parts: tuple[LoopNode, ...], facts: Facts) -> Iterator[LoopNode]:
        for part in parts:
            if isinstance(part, Bind):
                facts = facts.and_bound(part.name, part.value)
            yield self.node(part, facts)

    def _holding(self, loop: For, calls: tuple[Call, ...], facts: Facts) -> LoopNode:
        written, others = self._elements(calls)
        inside = facts.and_in(loop)
        held = tuple(
            HeldElement(element.array, element.subscripts, self._name(element.array))
            for element in written
            if not any(loop.iterator in names_in(subscript) for subscript in element.subscripts)
            and all(element == other or _are_apart(element, other, inside) for other in others[element.array])
        )
        if not held:
            return loop
        needed = AllOf(tuple(facts.unproved(not_empty(loop))))
        holding = replace(loop, held=held)
        return If(needed, holding) if needed.conditions else holding

    def _elements(self, calls: tuple[Call, ...]) -> tuple[list[Element], Mapping[str, list[Element]]]:
        """What may be held of what is written, and all that is accessed of its arrays."""
        accessed: dict[str, dict[Element, None]] = {}
        written: dict[Element, None] = {}
        unclear: set[str] = set()
        for call in calls:
            statement = self.nest.statement(call.statement)
            values = dict(zip(statement.iterators, call.arguments, strict=True))
            printed = {element for _, element in _printed(statement, values)}
            for access in statement.accesses:
                element = Element(access.array, _subscripts_of(access, values) or ())
                if element not in printed:
                    unclear.add(access.array)
                accessed.setdefault(access.array, {})[element] = None
                if access.is_write and self._is_held(self.nest.array(access.array)):
                    written[element] = None
        clear = [element for element in written if element.array not in unclear]
        return clear, {name: list(elements) for name, elements in accessed.items()}

    def _is_held(self, array: Array) -> bool:
        return array.dtype == HELD_DTYPE and (array.role is not Role.SCALAR or array.name in self.in_memory)

    def _name(self, array: str) -> str:
        count = sum(1 for name in self.taken if name.startswith(f"{array}_"))
        name = free_name(f"{array}_{count}", self.taken)
        self.taken.add(name)
        return name


def _calls_only(loop: For) -> tuple[Call, ...] | None:
    """What a loop runs, if every iteration runs the same statements."""
    parts = loop.body.parts if isinstance(loop.body, Block) else (loop.body,)
    calls = tuple(part for part in parts if isinstance(part, Call))
    return calls if len(calls) == len(parts) else None


def held_names(statement: Statement, values: Mapping[str, Affine], held: Iterable[HeldElement]) -> dict[str, str]:
    """The variables that stand for what a statement's text names in these words."""
    names = {Element(element.array, element.subscripts): element.name for element in held}
    return {text: names[element] for text, element in _printed(statement, values) if element in names}


def _printed(statement: Statement, values: Mapping[str, Affine]) -> Iterator[tuple[str, Element]]:
    """The elements that a statement's text names, with these words, as far as they can be told."""
    arrays: set[str] = set()
    for node in ast.walk(ast.parse(statement.body)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            arrays.add(node.value.id)
            subscripts = _all_known(affine_of(index, values) for index in indices_of(node))
            if subscripts is not None:
                yield ast.unparse(node), Element(node.value.id, subscripts)
    # A scalar that has an element for each iteration is called by its name alone.
    scalars = [access for access in statement.accesses if access.array not in arrays]
    for name in {access.array for access in scalars}:
        first, *others = {_subscripts_of(access, values) for access in scalars if access.array == name}
        if first is not None and not others:
            yield name, Element(name, first)


def _subscripts_of(access: Access, values: Mapping[str, Affine]) -> tuple[Affine, ...] | None:
    return _all_known(affine_of(parsed(subscript), values) for subscript in access.subscripts)


def _all_known(subscripts: Iterable[Affine | None]) -> tuple[Affine, ...] | None:
    found = tuple(subscripts)
    known = tuple(subscript for subscript in found if subscript is not None)
    return known if len(known) == len(found) else None


def _are_apart(element: Element, other: Element, facts: Facts) -> bool:
    """Whether the other is never this element, whatever the loop's iteration."""
    pairs = list(zip(element.subscripts, other.subscripts, strict=True))
    distances = [here - there for here, there in pairs]
    if any(not distance.terms and distance.constant for distance in distances):
        return True
    return facts.exclude([Comparison(here, Relation.EQUAL, there) for here, there in pairs])
