"""Faults of vector code: lanes lost or repeated, elements beside the right ones, one value for all lanes."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, at_each
from tests.mutants.site import MAKES_VECTORS, Site, bounds, called, expression, has_vectors, is_range, set_bounds
from tests.mutants.value_faults import move_boundary

Change = Callable[[Site], object]


def is_call(*names: str) -> Callable[[Site], bool]:
    return lambda site: called(site.node) in names


def is_main_loop(site: Site) -> bool:
    """A loop of full vectors."""
    return is_range(site.node) and isinstance(site.node, ast.For) and any(map(_stores, site.node.body))


def _stores(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and called(statement.value) in ("store", "scatter")


def is_rest(site: Site) -> bool:
    """The loop behind a loop of full vectors."""
    if not isinstance(site.node, ast.For):
        return False
    block = site.block
    place = next(number for number, node in enumerate(block) if node is site.node)
    return place > 0 and is_main_loop(Site(block[place - 1], site.parents))


def is_number_of_vectors(site: Site) -> bool:
    """Where the loop of full vectors ends: how many there are."""
    match site.node, site.parents:
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Constant()), (_, *_, ast.BinOp(op=ast.Mult())):
            return any(isinstance(parent, ast.Assign) and _is_rest_name(parent.targets[0]) for parent in site.parents)
        case _:
            return False


def _is_rest_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.endswith("_rest")


def count_shorter_vectors(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    assert isinstance(site.node.right, ast.Constant)
    site.node.right = ast.Constant(site.node.right.value // 2)


def step_by(text: str) -> Change:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.For)
        start, stop, step = bounds(site.node)
        set_bounds(site.node, start, stop, expression(text, STEP=step))

    return change


def halve_lanes(site: Site) -> None:
    """All vectors of a loop have half as many lanes, and its steps are as before."""
    assert isinstance(site.node, ast.For)
    for statement in site.node.body:
        for node in ast.walk(statement):
            if called(node) in MAKES_VECTORS:
                assert isinstance(node, ast.Call)
                assert isinstance(node.args[-1], ast.Constant)
                node.args[-1] = ast.Constant(node.args[-1].value // 2)


def drop(site: Site) -> None:
    site.replace()


def shift(by: str) -> Change:
    """A vector of elements beside the right ones."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Call)
        site.node.args[1] = _shifted(site.node.args[1], by)

    return change


def next_element(site: Site) -> None:
    assert isinstance(site.node, ast.Subscript)
    site.node.slice = _shifted(site.node.slice, "+ 1")


def _shifted(index: ast.expr, by: str) -> ast.expr:
    if isinstance(index, ast.Tuple):
        return ast.Tuple([*index.elts[:-1], _shifted(index.elts[-1], by)], index.ctx)
    return expression(f"INDEX {by}", INDEX=index)


def is_one_of_several(site: Site) -> bool:
    """A vector that is loaded beside others, so that a number in its place still makes a vector."""
    statement = next((parent for parent in reversed(site.parents) if isinstance(parent, ast.stmt)), None)
    if statement is None or called(site.node) != "load":
        return False
    return sum(called(node) == "load" for node in ast.walk(statement)) > 1


def first_lane_for_all(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    array, index, _ = site.node.args
    site.replace(expression("ARRAY[INDEX]", ARRAY=array, INDEX=index))


def is_same_in_all_lanes(site: Site) -> bool:
    """An element of which one number goes into all lanes."""
    is_element = isinstance(site.node, ast.Subscript) and isinstance(site.node.ctx, ast.Load) and not site.is_in_index
    return is_element and any(has_vectors(parent) for parent in site.parents if isinstance(parent, ast.expr))


def is_vector_comparison(site: Site) -> bool:
    return isinstance(site.node, ast.Compare) and any(called(parent) == "select" for parent in site.parents)


def swap_arguments(first: int) -> Change:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Call)
        arguments = site.node.args
        arguments[first], arguments[first + 1] = arguments[first + 1], arguments[first]

    return change


def exchange_extremum(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    assert isinstance(site.node.func, ast.Name)
    site.node.func.id = {"minimum": "maximum", "maximum": "minimum"}[site.node.func.id]


def gather_across(site: Site) -> bool:
    assert isinstance(site.node, ast.Call)
    match site.node.args[2]:
        case ast.Tuple(steps):
            steps.reverse()
            return True
        case _:
            return False


def gather_sparsely(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    steps = site.node.args[2]
    parts = steps.elts if isinstance(steps, ast.Tuple) else [steps]
    doubled = [expression("2 * STEP", STEP=part) for part in parts]
    site.node.args[2] = ast.Tuple(doubled, ast.Load()) if isinstance(steps, ast.Tuple) else doubled[0]


VECTOR_FAULTS = (
    Fault(
        "vectors-too-many",
        "there are as many vectors as of half the lanes",
        at_each(is_number_of_vectors, count_shorter_vectors),
    ),
    Fault("vectors-too-far-apart", "every second vector is lost", at_each(is_main_loop, step_by("2 * STEP"))),
    Fault(
        "vectors-overlap",
        "vectors overlap by half",
        at_each(is_main_loop, step_by("STEP // 2")),
        "each lane computes the same again, and the last ones are what the rest computes",
    ),
    Fault("vector-half-empty", "a vector has half the lanes", at_each(is_main_loop, halve_lanes)),
    Fault(
        "vectors-lost", "the loop of full vectors is missing", at_each(is_main_loop, drop), "there is no full vector"
    ),
    Fault(
        "vector-rest-lost",
        "the iterations behind the last full vector are missing",
        at_each(is_rest, drop),
        "vectors leave nothing over",
    ),
    Fault(
        "vector-loaded-late",
        "a vector is loaded one element too late",
        at_each(is_call("load", "gather"), shift("+ 1")),
        "all elements are equal",
    ),
    Fault(
        "vector-loaded-early",
        "a vector is loaded one element too early",
        at_each(is_call("load", "gather"), shift("- 1")),
        "all elements are equal",
    ),
    Fault(
        "vector-stored-late",
        "a vector is stored one element too late",
        at_each(is_call("store", "scatter"), shift("+ 1")),
    ),
    Fault(
        "vector-stored-early",
        "a vector is stored one element too early",
        at_each(is_call("store", "scatter"), shift("- 1")),
    ),
    Fault("vector-not-stored", "a vector is not stored", at_each(lambda site: _stores(site.node), drop)),
    Fault(
        "first-lane-for-all",
        "all lanes have the first one's element",
        at_each(is_one_of_several, first_lane_for_all),
        "all elements are equal",
    ),
    Fault(
        "wrong-element-for-all",
        "all lanes have an element beside the right one",
        at_each(is_same_in_all_lanes, next_element),
    ),
    Fault(
        "vector-branches-swapped",
        "the two values of a choice change places",
        at_each(is_call("select"), swap_arguments(1)),
    ),
    Fault(
        "vector-choice-boundary",
        "`<` becomes `<=` in a choice",
        at_each(is_vector_comparison, move_boundary),
        "both values of the choice are equal there",
    ),
    Fault(
        "vector-extremum-exchanged",
        "minimum becomes maximum",
        at_each(is_call("minimum", "maximum"), exchange_extremum),
    ),
    Fault(
        "vector-extremum-swapped",
        "`minimum(a, b)` is `minimum(b, a)`: another result for NaN and zeros of both signs",
        at_each(is_call("minimum", "maximum"), swap_arguments(0)),
        "integers have neither",
    ),
    Fault(
        "gathered-across",
        "a vector is gathered along another dimension",
        at_each(is_call("gather"), gather_across),
        "the matrix is symmetric",
    ),
    Fault(
        "gathered-sparsely",
        "a vector is gathered from every second element",
        at_each(is_call("gather"), gather_sparsely),
    ),
)
