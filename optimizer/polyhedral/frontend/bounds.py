"""Proves that every subscript stays inside its array, and finds the iteration that does not."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import islpy as isl

from optimizer.errors import UserError
from optimizer.polyhedral.frontend.affine import Affine, NotAffine, affine, condition, variable
from optimizer.polyhedral.frontend.limits import limited
from optimizer.polyhedral.nest import ANYWHERE, Array, Nest, Role, Statement

_TASK = "prove that every subscript stays inside its array"


@dataclass(frozen=True, slots=True)
class Element:
    """One subscripted array in the text of a statement, with the conditions under which it is evaluated."""

    array: str
    subscripts: tuple[str, ...]
    guards: tuple[str, ...]
    is_write: bool


@dataclass(frozen=True, slots=True)
class Violation:
    """An element of an array that does not exist is touched."""

    statement: Statement
    position: int
    """Which of the statement's subscripted arrays, in the order of `subscripted_arrays`."""
    message: str
    counts_from_end: bool = False
    """Whether Python, and Numba, take it for another element: a negative subscript counts from the end."""


@dataclass(frozen=True, slots=True)
class _Hazard:
    """An access that can leave its array, in isl's words."""

    statement: Statement
    position: int
    element: Element
    shape: tuple[str, ...]
    iteration: str
    """Beginning of an isl text: the parameters and the tuple of the statement's iterators."""
    reached: isl.Set
    """The iterations that evaluate it."""
    outside: isl.Set
    """Those of them for which it is outside."""


def check_bounds(nest: Nest, sizes: Mapping[str, int] | None = None) -> None:
    """Checks all subscripts.

    Args:
        sizes: Parameter -> value; those left out may have any value. Without it: what goes wrong at every size.

    Raises:
        UserError: with the offending iteration.
    """
    violation = find_violation(nest, sizes)
    if violation is not None:
        raise UserError(f"{nest.file}:{violation.statement.line}: {violation.message}")


def find_violation(nest: Nest, sizes: Mapping[str, int] | None = None) -> Violation | None:
    """The first access that leaves its array at the given sizes, or at every (large enough) size."""
    with limited(nest.file, _TASK):
        for hazard in _hazards_of(nest):
            outside = hazard.outside
            if sizes is not None:
                for name, value in sizes.items():
                    position = outside.find_dim_by_name(isl.dim_type.param, name)
                    if position >= 0:
                        outside = outside.fix_val(isl.dim_type.param, position, isl.Val(value))
            elif not _is_certain(hazard, nest):
                continue
            if not outside.is_empty():
                return Violation(hazard.statement, hazard.position, _in_words(hazard, outside))
    return None


def certain_violations(nest: Nest) -> list[Violation]:
    """Every access that leaves its array at every size at which it runs, arrays of one element or none apart.

    Subscripts that are negative in all iterations, or in more of them for larger arrays, count from the end on purpose.
    """
    found: list[Violation] = []
    with limited(nest.file, _TASK):
        for hazard in _hazards_of(nest):
            if not is_usual(hazard.reached.params(), hazard.outside.params(), nest):
                continue
            beyond = hazard.outside.intersect(_beyond(hazard))
            counts_from_end = not is_usual(hazard.reached.params(), beyond.params(), nest)
            if counts_from_end and not _goes_astray(hazard):
                continue
            message = _in_words(hazard, _at_usual_sizes(hazard.outside if counts_from_end else beyond, nest))
            found.append(Violation(hazard.statement, hazard.position, message, counts_from_end))
    return found


def is_usual(reached: isl.Set, faulty: isl.Set, nest: Nest) -> bool:
    """Whether something is wrong at all sizes that are reached, arrays of fewer than two elements in a direction apart.

    A code may be meant for arrays of three elements, but hardly for those of one.
    """
    usual = reached.intersect(_sizes_from(2, nest))
    return not faulty.is_empty() and (reached if usual.is_empty() else usual).is_subset(faulty)


def _goes_astray(hazard: _Hazard) -> bool:
    """Whether negative subscripts stay above some fixed number, and those of other iterations are not negative."""
    if hazard.reached.is_subset(hazard.outside):
        return False
    subscripts = isl.Map(f"{hazard.iteration} -> [{', '.join(hazard.element.subscripts)}] }}")
    values = hazard.outside.apply(subscripts).project_out_all_params()
    return all(values.dim_min_val(k).is_int() for k in range(len(hazard.shape)))


def _at_usual_sizes(outside: isl.Set, nest: Nest) -> isl.Set:
    """Without arrays of few elements, which are poor examples, if there are others."""
    usual = outside.intersect_params(_sizes_from(4, nest))
    return outside if usual.is_empty() else usual


def _sizes_from(least: int, nest: Nest) -> isl.Set:
    """The sizes at which no array has fewer elements in a direction, unless it always has."""
    extents = sorted({extent for array in nest.arrays for extent in array.shape if _names(extent)})
    conditions = " and ".join(f"{extent} >= {least}" for extent in extents)
    return isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {conditions or 'true'} }}")


def _beyond(hazard: _Hazard) -> isl.Set:
    """The iterations in which no element is meant even if negative subscripts count from the end."""
    tests = [
        f"{subscript} < -({extent}) or {subscript} >= {extent}"
        for subscript, extent in zip(hazard.element.subscripts, hazard.shape, strict=True)
        if subscript != ANYWHERE
    ]
    return isl.Set(f"{hazard.iteration} : {' or '.join(tests)} }}")


def within_bounds(nest: Nest) -> Nest:
    """The nest for the sizes at which every subscript stays inside its array, and no others."""
    hazards = _hazards_of(nest)
    if not hazards:
        return nest
    with limited(nest.file, _TASK):
        safe = isl.Set(nest.context)
        for hazard in hazards:
            safe = safe.subtract(hazard.outside.params())
        return replace(nest, context=str(safe.coalesce()))


def _hazards_of(nest: Nest) -> tuple[_Hazard, ...]:
    return _hazards(nest.parameters, nest.arrays, nest.statements)


@lru_cache(maxsize=16)
def _hazards(
    parameters: tuple[str, ...], arrays: tuple[Array, ...], statements: tuple[Statement, ...]
) -> tuple[_Hazard, ...]:
    """Every access that is not proved to stay inside for all sizes at which the arrays exist."""
    shapes = {array.name: array.shape for array in arrays if array.role is not Role.SCALAR}
    scalars = {array.name for array in arrays if array.role is Role.SCALAR}
    extents = " and ".join(f"{extent} >= 0" for shape in shapes.values() for extent in shape)
    admissible = isl.Set(f"[{', '.join(parameters)}] -> {{ : {extents} }}")
    found: list[_Hazard] = []
    for statement in statements:
        domain = isl.Set(statement.domain).intersect_params(admissible)
        iteration = f"[{', '.join(parameters)}] -> {{ {statement.name}[{', '.join(statement.iterators)}]"
        elements = tuple(_elements(statement, parameters, scalars))
        if domain.is_subset(_inside(iteration, elements, shapes)):
            continue
        for position, element in enumerate(elements):
            shape = shapes[element.array]
            reached = domain
            for guard in element.guards:
                reached = reached.intersect(isl.Set(f"{iteration} : {guard} }}"))
            tests = [
                f"{subscript} < 0 or {subscript} >= {extent}"
                for subscript, extent in zip(element.subscripts, shape, strict=True)
                if subscript != ANYWHERE
            ]
            outside = reached.intersect(isl.Set(f"{iteration} : {' or '.join(tests) or 'false'} }}"))
            if not outside.is_empty():
                found.append(_Hazard(statement, position, element, shape, iteration, reached, outside))
    return tuple(found)


def _inside(iteration: str, elements: Sequence[Element], shapes: Mapping[str, tuple[str, ...]]) -> isl.Set:
    """The iterations for which no element is outside, whether it is evaluated or not."""
    tests = {
        f"0 <= {subscript} < {extent}"
        for element in elements
        for subscript, extent in zip(element.subscripts, shapes[element.array], strict=True)
        if subscript != ANYWHERE
    }
    return isl.Set(f"{iteration} : {' and '.join(sorted(tests)) or 'true'} }}")


def _is_certain(hazard: _Hazard, nest: Nest) -> bool:
    """Whether it happens at every size at which the access runs at all, apart from small arrays."""
    return only_for_small_arrays(hazard.reached.params().subtract(hazard.outside.params()), nest)


def only_for_small_arrays(fine: isl.Set, nest: Nest) -> bool:
    """Whether some array is below a fixed size at each of these sizes, if there are any."""
    if fine.is_empty():
        return True
    extents = {name for array in nest.arrays for text in array.shape for name in _names(text)}
    names = [str(fine.get_dim_name(isl.dim_type.param, k)) for k in range(fine.dim(isl.dim_type.param))]
    shared = [name for name in names if name in extents]
    if not shared:
        return False
    smallest = " and ".join(f"least <= {name}" for name in shared)
    least = isl.Set(f"[{', '.join(names)}] -> {{ [least] : {smallest} }}").intersect_params(fine)
    return least.project_out_all_params().dim_max_val(0).is_int()


def _in_words(hazard: _Hazard, outside: isl.Set) -> str:
    """`S0 at i=0, j=0 reads A[-1, 0], but A has the shape [n, m], here [4, 4]`."""
    element, shape = hazard.element, hazard.shape
    point = _first_point(outside)
    iterators = [f"{name}={_value(hazard, point, name)}" for name in hazard.statement.iterators]
    subscripts = ", ".join(_value(hazard, point, subscript) for subscript in element.subscripts)
    extents = ", ".join(_value(hazard, point, extent) for extent in shape)
    named = ", ".join(shape)
    where = f"{hazard.statement.name} at {', '.join(iterators)}" if iterators else hazard.statement.name
    does = "writes" if element.is_write else "reads"
    here = "" if extents == named else f", here [{extents}]"
    return f"{where} {does} {element.array}[{subscripts}], but {element.array} has the shape [{named}]{here}"


def _first_point(outside: isl.Set) -> isl.Set:
    """One iteration at one size: the first, at the smallest sizes where sizes have a least value."""
    sizes = outside.params()
    for k in range(sizes.dim(isl.dim_type.param)):
        name = sizes.get_dim_name(isl.dim_type.param, k)
        column = isl.Set(f"[{name}] -> {{ [value] : value = {name} }}").intersect_params(sizes).project_out_all_params()
        if column.dim_has_any_lower_bound(isl.dim_type.set, 0) and column.lexmin().is_singleton():
            least = column.dim_min_val(0)
            sizes = sizes.fix_val(isl.dim_type.param, k, least)
    point = isl.Set.from_point(sizes.sample_point()) if sizes.dim(isl.dim_type.param) else sizes
    return outside.intersect_params(point.params()).lexmin()


def _value(hazard: _Hazard, point: isl.Set, expression: str) -> str:
    """The value of an isl expression at one iteration and size."""
    if expression == ANYWHERE:
        return expression
    value = point.apply(isl.Map(f"{hazard.iteration} -> [{expression}] }}")).project_out_all_params()
    return str(value.dim_max_val(0))


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}


def _elements(statement: Statement, parameters: tuple[str, ...], scalars: Collection[str]) -> Iterator[Element]:
    """The subscripted arrays in a statement's text, in the order of `subscripted_arrays`; of an opaque statement those
    of its accesses, which it touches in any case as far as their subscripts are known."""
    known = {*statement.iterators, *parameters}

    def lookup(node: ast.expr) -> Affine | None:
        return variable(node.id) if isinstance(node, ast.Name) and node.id in known else None

    if statement.opaque:
        for access in statement.accesses:
            if access.subscripts and access.array not in scalars:
                yield Element(access.array, access.subscripts, (), access.is_write)
        return
    for node, tests in subscripted_arrays(ast.parse(statement.body).body[0]):
        guards: list[str] = []
        for test, holds in tests:
            try:
                found = condition(test, lookup)
            except NotAffine:
                continue
            guards.append((found if holds else found.negated()).text)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        subscripts = tuple(str(affine(part, lookup)) for part in parts)
        yield Element(ast.unparse(node.value), subscripts, tuple(guards), isinstance(node.ctx, ast.Store))


Test: TypeAlias = tuple[ast.expr, bool]
"""A condition, and whether it holds."""


def subscripted_arrays(node: ast.AST, tests: tuple[Test, ...] = ()) -> Iterator[tuple[ast.Subscript, tuple[Test, ...]]]:
    """Every array element in a statement, with the conditions under which Python evaluates it."""
    match node:
        case ast.Subscript(value=ast.Attribute()):
            return
        case ast.Subscript():
            yield node, tests
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from subscripted_arrays(test, tests)
            yield from subscripted_arrays(body, (*tests, (test, True)))
            yield from subscripted_arrays(orelse, (*tests, (test, False)))
        case ast.BoolOp(op=operator, values=values):
            for value in values:
                yield from subscripted_arrays(value, tests)
                tests = (*tests, (value, isinstance(operator, ast.And)))
        case _:
            for child in ast.iter_child_nodes(node):
                yield from subscripted_arrays(child, tests)
