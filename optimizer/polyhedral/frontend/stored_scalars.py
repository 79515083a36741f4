"""Scalars that hold the value of an element for a while: the element itself takes their place.

    w = A[i, j]; for k: w -= ...; A[i, j] = w / A[j, j]        A[i, j] -= ...; A[i, j] = A[i, j] / A[j, j]
    y[i] = np.sum(...) / n        w = 0.0; for k: w += ...; y[i] = w / n        y[i] = 0.0; y[i] += ...; y[i] = y[i] / n

A scalar that each iteration has for itself needs memory of its own as soon as its loops are taken apart. The element
has that already. It changes nothing if nothing else touches the element from the load to the store, which isl proves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.nest import Access, Nest, Role, Statement
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, sequence_of

DTYPE = "float64"
"""Of such elements the innermost loops keep a variable, as they do of the scalar."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What a scalar holds from its first value to a store, once in each iteration of the loops around both."""

    scalar: str
    element: Access
    text: ast.Subscript
    """The element in the words of both."""
    load: Statement
    """What gives the scalar its first value: the element's, or one that no memory has."""
    store: Statement


def with_scalars_in_elements(nest: Nest) -> Nest:
    """The nest with elements in the place of scalars that are stored to them, and begin as them or are sums."""
    for stay in _stays(nest):
        try:
            with operation_limit():
                is_right = _is_undisturbed(Model(nest), stay)
        except isl.Error:
            continue
        if is_right:
            nest = _without(nest, stay)
    return nest


def _stays(nest: Nest) -> Iterator[Stay]:
    """All that may be one by their text."""
    for scalar in nest.arrays:
        if scalar.role is not Role.SCALAR or scalar.returned or scalar.dtype != DTYPE:
            continue
        using = [s for s in nest.statements if any(access.array == scalar.name for access in s.accesses)]
        if len(using) < 2 or any(statement.opaque for statement in using):
            continue
        load, *_, store = using
        element = next((access for access in store.accesses if access.is_write), None)
        text = _stored(store)
        if element is None or text is None or nest.array(element.array).dtype != DTYPE:
            continue
        held = Access(scalar.name, load.iterators, is_write=True)
        of_element = {held, replace(element, is_write=False)}
        is_sum = set(load.accesses) == {held} and any(statement.name in nest.free_sums for statement in using)
        is_first = is_sum or (set(load.accesses) == of_element and _is_load(load, text))
        if is_first and _is_set(load, scalar.name) and load.iterators == store.iterators:
            yield Stay(scalar.name, element, text, load, store)


def _stored(store: Statement) -> ast.Subscript | None:
    """The element that a statement sets."""
    match ast.parse(store.body).body:
        case [ast.Assign(targets=[ast.Subscript() as element])]:
            return element
        case _:
            return None


def _is_set(load: Statement, scalar: str) -> bool:
    match ast.parse(load.body).body:
        case [ast.Assign(targets=[ast.Name(id=name)])]:
            return name == scalar
        case _:
            return False


def _is_load(load: Statement, element: ast.Subscript) -> bool:
    """Whether a statement puts an element into a variable, and nothing else."""
    (assignment,) = ast.parse(load.body).body
    return isinstance(assignment, ast.Assign) and ast.unparse(assignment.value) == ast.unparse(element)


def _is_undisturbed(model: Model, stay: Stay) -> bool:
    """Whether from each load to its store the scalar is used, and only then, and its element is not."""
    nest, order = model.nest, model.original_order
    load, store = (instance_tuple(nest, statement.name) for statement in (stay.load, stay.store))
    itself, until = (
        isl.UnionMap(f"{{ {load} -> {end} }}").intersect_domain(model.domain).intersect_range(model.domain)
        for end in (load, store)
    )
    if not itself.domain().is_equal(until.domain()) or not _domain(model, stay.store).is_equal(until.range()):
        return False
    begin = order.intersect_domain(itself.domain())
    end = until.apply_range(order)
    during = begin.lex_le_union_map(order).intersect(end.lex_ge_union_map(order))
    loaded = model.access_relation(stay.load, replace(stay.element, is_write=False))
    held = model.access_relation(stay.load, Access(stay.scalar, stay.load.iterators, is_write=True))
    for statement in nest.statements:
        for access in statement.accesses:
            touched = model.access_relation(statement, access)
            if access.array == stay.scalar:
                uses = held.apply_range(touched.reverse())
                if not uses.is_subset(during) or not touched.range().is_subset(held.range()):
                    return False
            elif access.array == stay.element.array:
                others = loaded.apply_range(touched.reverse()).intersect(during)
                if statement == stay.load:
                    others = others.subtract(itself)
                if statement == stay.store and access.is_write:
                    others = others.subtract(until)
                if not others.is_empty():
                    return False
    return True


def _domain(model: Model, statement: Statement) -> isl.UnionSet:
    return isl.UnionSet.from_set(model.domains[statement.name])


def _without(nest: Nest, stay: Stay) -> Nest:
    """Without the scalar, and without its load and its store where they change nothing."""
    element = ast.unparse(stay.text)
    statements = tuple(_in_element(s, stay) for s in nest.statements)
    kept = tuple(s for s in statements if s.body != f"{element} = {element}")
    arrays = tuple(array for array in nest.arrays if array.name != stay.scalar)
    tree = with_leaves_of(nest.tree, {s.name for s in kept})
    return nest if tree is None else replace(nest, arrays=arrays, statements=kept, tree=tree)


def _in_element(statement: Statement, stay: Stay) -> Statement:
    if not any(access.array == stay.scalar for access in statement.accesses):
        return statement
    accesses = tuple(
        replace(stay.element, is_write=access.is_write) if access.array == stay.scalar else access
        for access in statement.accesses
    )
    body = _InElement(stay).visit(ast.parse(statement.body))
    return replace(statement, accesses=accesses, body=ast.unparse(body))


class _InElement(ast.NodeTransformer):
    def __init__(self, stay: Stay) -> None:
        self.stay = stay

    def visit_Name(self, node: ast.Name) -> ast.expr:
        text = self.stay.text
        return ast.Subscript(text.value, text.slice, node.ctx) if node.id == self.stay.scalar else node


def with_leaves_of(node: Node, statements: set[str]) -> Node | None:
    """What is left of a tree with the leaves of these statements alone; None if nothing is."""
    match node:
        case Leaf():
            return node if node.statement in statements else None
        case Loop():
            body = with_leaves_of(node.body, statements)
            return None if body is None else replace(node, body=body)
        case Sequence():
            parts = [part for each in node.parts if (part := with_leaves_of(each, statements)) is not None]
            return sequence_of(*parts) if parts else None
