"""Faults of loops and guards: iterations that are lost, run twice, or run in another order."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, at_each
from tests.mutants.site import Site, bounds, expression, is_range, set_bounds


def is_loop(site: Site) -> bool:
    return is_range(site.node)


def is_serial_loop(site: Site) -> bool:
    return is_range(site.node, "range")


def is_ascending(site: Site) -> bool:
    return isinstance(site.node, ast.For) and is_serial_loop(site) and isinstance(bounds(site.node)[2], ast.Constant)


def is_guard(site: Site) -> bool:
    return isinstance(site.node, ast.If)


def is_bound_number(site: Site) -> bool:
    return site.is_in_bounds and isinstance(site.node, ast.Constant) and site.node.value not in (0, 1)


def is_rounded_up(site: Site) -> bool:
    match site.node:
        case ast.BinOp(ast.BinOp(_, ast.Add(), ast.Constant()), ast.FloorDiv(), ast.Constant()):
            return True
        case _:
            return False


def is_bound_call(name: str) -> Callable[[Site], bool]:
    def matches(site: Site) -> bool:
        match site.node:
            case ast.Call(func=ast.Name(called), args=[_, _, *_]):
                return called == name and not site.is_in_value
            case _:
                return False

    return matches


def new_bounds(start: str = "START", stop: str = "STOP", step: str = "STEP") -> Callable[[Site], object]:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.For)
        parts = dict(zip(("START", "STOP", "STEP"), bounds(site.node), strict=True))
        set_bounds(site.node, *(expression(text, **parts) for text in (start, stop, step)))

    return change


def guard_becomes(part: str) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.If)
        site.replace(*getattr(site.node, part))

    return change


def negate_guard(site: Site) -> None:
    assert isinstance(site.node, ast.If)
    site.node.test = ast.UnaryOp(ast.Not(), site.node.test)


BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def is_boundary(site: Site) -> bool:
    return site.is_in_condition and isinstance(site.node, ast.Compare) and type(site.node.ops[0]) in BOUNDARIES


def move_boundary(site: Site) -> None:
    assert isinstance(site.node, ast.Compare)
    site.node.ops[0] = BOUNDARIES[type(site.node.ops[0])]()


def drop_first_condition(site: Site) -> bool:
    match site.node:
        case ast.If(test=ast.BoolOp(values=[_, *rest]) as test):
            test.values = rest
            return True
        case _:
            return False


def drop_rounding(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    assert isinstance(site.node.left, ast.BinOp)
    site.node.left = site.node.left.left


def widen_divisor(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    assert isinstance(site.node.right, ast.Constant)
    site.node.right = ast.Constant(site.node.right.value + 1)


def keep_operand(number: int) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Call)
        site.replace(site.node.args[number])

    return change


def exchange_extremum(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    assert isinstance(site.node.func, ast.Name)
    site.node.func.id = {"min": "max", "max": "min"}[site.node.func.id]


def is_extremum(site: Site) -> bool:
    return is_bound_call("min")(site) or is_bound_call("max")(site)


def change_number(by: int) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Constant)
        site.replace(ast.Constant(site.node.value + by))

    return change


def is_nested_pair(site: Site) -> bool:
    """A loop with nothing but a loop in it, which does not depend on it."""
    match site.node:
        case ast.For(target=ast.Name(outer), body=[ast.For() as inner]):
            is_free = all(not (isinstance(node, ast.Name) and node.id == outer) for node in ast.walk(inner.iter))
            return is_range(site.node, "range") and is_range(inner, "range") and is_free
        case _:
            return False


def interchange(site: Site) -> None:
    assert isinstance(site.node, ast.For)
    inner = site.node.body[0]
    assert isinstance(inner, ast.For)
    site.node.target, inner.target = inner.target, site.node.target
    site.node.iter, inner.iter = inner.iter, site.node.iter


def drop(site: Site) -> None:
    site.replace()


def run_twice(site: Site) -> None:
    site.replace(site.node, site.node)


def is_split_loop(site: Site) -> bool:
    """A loop right behind another one in the same block."""
    if not is_loop(site):
        return False
    block = site.block
    position = next(number for number, node in enumerate(block) if node is site.node)
    return position > 0 and isinstance(block[position - 1], ast.For)


def exchange_with_previous(site: Site) -> None:
    block = site.block
    position = next(number for number, node in enumerate(block) if node is site.node)
    block[position - 1], block[position] = block[position], block[position - 1]


ORDER_IS_FREE = "no iteration of the loop depends on another one"
RANGE_IS_EMPTY = "the iterations it adds are empty, or guarded against by another bound"

LOOP_FAULTS = (
    Fault(
        "first-iteration-lost",
        "a loop starts one step late",
        at_each(is_loop, new_bounds(start="START + 1")),
        "the first iteration has nothing to do",
    ),
    Fault(
        "starts-early",
        "a loop starts one step early",
        at_each(is_loop, new_bounds(start="START - 1")),
        RANGE_IS_EMPTY,
    ),
    Fault(
        "last-iteration-lost",
        "a loop stops one step early",
        at_each(is_loop, new_bounds(stop="STOP - 1")),
        "the last iteration has nothing to do",
    ),
    Fault("stops-late", "a loop stops one step late", at_each(is_loop, new_bounds(stop="STOP + 1")), RANGE_IS_EMPTY),
    Fault("wrong-step", "a loop's step is one larger", at_each(is_serial_loop, new_bounds(step="STEP + 1"))),
    Fault(
        "runs-backward",
        "a serial loop runs from its end to its start",
        at_each(
            is_ascending,
            new_bounds(start="START + (max(STOP - START, 0) - 1) // STEP * STEP", stop="START - 1", step="-STEP"),
        ),
        ORDER_IS_FREE,
    ),
    Fault("loops-interchanged", "two nested loops change places", at_each(is_nested_pair, interchange), ORDER_IS_FREE),
    Fault("loop-dropped", "a loop is missing", at_each(is_loop, drop), "the loop has nothing to do"),
    Fault(
        "loop-twice",
        "a loop runs twice",
        at_each(is_loop, run_twice),
        "running it again computes the same values again",
    ),
    Fault(
        "loops-exchanged",
        "two loops one after the other run in the other order",
        at_each(is_split_loop, exchange_with_previous),
        "the two loops touch different data",
    ),
    Fault(
        "one-iteration-lost",
        "a loop of a single iteration is skipped",
        at_each(is_loop, new_bounds(stop="STOP - int(STOP - START == 1)")),
        "the loop never has one iteration, or it has nothing to do then",
    ),
    Fault(
        "wrong-above-16",
        "the last iteration is lost where a loop ends above 16",
        at_each(is_loop, new_bounds(stop="STOP - int(STOP > 16)")),
        "the loop never ends above 16 or its last iteration has nothing to do",
    ),
    Fault(
        "wrong-above-48",
        "the last iteration is lost where a loop ends above 48",
        at_each(is_loop, new_bounds(stop="STOP - int(STOP > 48)")),
        "the loop never ends above 48 or its last iteration has nothing to do",
    ),
    Fault(
        "wrong-at-multiples",
        "the last iteration is lost where a loop ends at a multiple of 8",
        at_each(is_loop, new_bounds(stop="STOP - int(STOP % 8 == 0)")),
        "the last iteration has nothing to do then",
    ),
    Fault(
        "partial-tile-lost",
        "the number of tiles is rounded down",
        at_each(is_rounded_up, drop_rounding),
        "another bound is tighter",
    ),
    Fault(
        "wrong-divisor",
        "the number of tiles is that of larger tiles",
        at_each(is_rounded_up, widen_divisor),
        "the tiles that it leaves out are empty",
    ),
    Fault(
        "clamp-lost",
        "a tile's end is no longer held inside the array",
        at_each(is_bound_call("min"), keep_operand(1)),
        "the operand that is left is never the larger one",
    ),
    Fault(
        "tile-end-lost",
        "a tile runs to the end of the array",
        at_each(is_bound_call("min"), keep_operand(0)),
        "the operand that is left is never the larger one",
    ),
    Fault(
        "lower-clamp-lost",
        "a tile's start is no longer held inside the array",
        at_each(is_bound_call("max"), keep_operand(1)),
        "the operand that is left is never the smaller one",
    ),
    Fault(
        "lower-tile-start-lost",
        "a tile starts at the start of the array",
        at_each(is_bound_call("max"), keep_operand(0)),
        "the operand that is left is never the smaller one",
    ),
    Fault("extremum-exchanged", "a bound takes min for max", at_each(is_extremum, exchange_extremum)),
    Fault(
        "bound-number-up",
        "a number in a loop's bounds is one larger",
        at_each(is_bound_number, change_number(1)),
        RANGE_IS_EMPTY,
    ),
    Fault(
        "bound-number-down",
        "a number in a loop's bounds is one smaller",
        at_each(is_bound_number, change_number(-1)),
        RANGE_IS_EMPTY,
    ),
    Fault(
        "guard-dropped",
        "what is guarded runs always",
        at_each(is_guard, guard_becomes("body")),
        "both branches do the same where the guard fails",
    ),
    Fault(
        "guard-never-holds",
        "what is guarded never runs",
        at_each(is_guard, guard_becomes("orelse")),
        "the general code of the other branch does the same",
    ),
    Fault("guard-negated", "a guard asks for the opposite", at_each(is_guard, negate_guard)),
    Fault(
        "guard-boundary",
        "a guard is off by one",
        at_each(is_boundary, move_boundary),
        "the general code of the other branch does the same at the boundary",
    ),
    Fault(
        "condition-dropped",
        "a guard lost one of its conditions",
        at_each(is_guard, drop_first_condition),
        "the others imply it, or nothing that it let through reaches a result",
    ),
)
