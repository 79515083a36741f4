"""Elements of `np.empty` that are read, or returned, although nothing was written to them (`unwritten-read`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import islpy as isl

from optimizer.lint.dataflow import Flow, maps_of, model_of_array
from optimizer.lint.finding import Finding, Rule
from optimizer.lint.iterations import Example, example
from optimizer.lint.making import EMPTY, call_that_makes, is_making
from optimizer.lint.subject import Subject
from optimizer.lint.wording import iteration, sizes
from optimizer.polyhedral.evaluation import parts_of
from optimizer.polyhedral.frontend.bounds import is_usual
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Array, Role, Statement


def unwritten_reads(subject: Subject) -> Iterator[Finding]:
    """Reads that find no value at any size at which they run, arrays of one element or none apart."""
    for array in subject.nest.arrays:
        made = call_that_makes(subject, array.name, EMPTY)
        users = subject.users(array)
        if array.role is not Role.LOCAL or made is None or any(map(subject.depends_on_data, users)):
            continue
        sources = {statement.name: subject.source_of(statement.name) for statement in users}
        making = {name for name, found in sources.items() if found is not None and is_making(subject, found[0])}
        model = model_of_array(subject.nest, array.name, without=making)
        unwritten = Flow(model).unwritten
        hint = f"write all elements first, or begin with zeros: `{ast.unparse(made).replace('empty', 'zeros')}`"
        for statement in model.nest.statements:
            source, first = sources[statement.name], _first_unwritten(model, statement, array, unwritten)
            if source is None or first is None:
                continue
            where = iteration(subject, dict(zip(statement.iterators, first.iteration, strict=True)))
            at = sizes(subject, first.sizes, f"{statement.domain} {' '.join(array.shape)}")
            message = f"{where} reads {_element(array, first)}, to which nothing was written{at}"
            node = _read_in(source[0], array.name) or source[0]
            yield Finding(Rule.UNWRITTEN_READ, subject.function.name, node, message, hint)
        if array.returned and subject.is_whole and (first := _first_returned(model, array)) is not None:
            at = sizes(subject, first.sizes, " ".join(array.shape))
            message = f"`{array.name}` is returned although nothing was written to {_element(array, first)}{at}"
            yield Finding(Rule.UNWRITTEN_READ, subject.function.name, made, message, hint)


def _first_unwritten(model: Model, statement: Statement, array: Array, unwritten: isl.UnionMap) -> Example | None:
    """An iteration that reads an element without a value whatever the data are."""
    read = isl.UnionMap("{ }")
    for part in parts_of(model, statement):
        for access in part.certain_reads:
            if access.array == array.name:
                relation = model.access_relation(statement, access)
                read = read.union(relation.intersect_domain(isl.UnionSet.from_set(part.iterations)))
    missing = read.intersect(unwritten)
    if missing.is_empty():
        return None
    is_sure = is_usual(read.domain().params(), missing.domain().params(), model.nest)
    return example(maps_of(missing)[0]) if is_sure else None


def _first_returned(model: Model, array: Array) -> Example | None:
    """An element of a result that never gets a value."""
    points = [f"at_{k}" for k in range(len(array.shape))]
    inside = " and ".join(f"0 <= {point} < {extent}" for point, extent in zip(points, array.shape, strict=True))
    text = f"[{', '.join(model.nest.parameters)}] -> {{ [] -> {array.name}[{', '.join(points)}] : {inside} }}"
    every = isl.Map(text).intersect_params(model.context)
    missing = isl.UnionMap.from_map(every).subtract_range(model.writes.range())
    if missing.is_empty():
        return None
    is_sure = is_usual(every.params(), missing.params(), model.nest)
    return example(maps_of(missing)[0]) if is_sure else None


def _element(array: Array, found: Example) -> str:
    return f"{array.name}[{', '.join(map(str, found.element))}]"


def _read_in(statement: ast.stmt, array: str) -> ast.expr | None:
    """The first place in a statement that reads an element of the array."""
    for node in ast.walk(statement):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Load()) if name == array:
                return node
            case _:
                continue
    return None
