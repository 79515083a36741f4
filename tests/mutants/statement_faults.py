"""Faults of statements: lost, repeated, exchanged, turned into another kind, skipped for some values."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, Scope, at_each
from tests.mutants.site import Site, computes_data, has_vectors, statements, vector_names


def is_data_statement(site: Site) -> bool:
    return isinstance(site.node, ast.Assign | ast.AugAssign) and computes_data(site.node, site.function)


def is_number_statement(site: Site) -> bool:
    """Not one of vectors, of which no single condition could be asked."""
    return is_data_statement(site) and not has_vectors(site.node, vector_names(site.function))


def is_augmented(site: Site) -> bool:
    return isinstance(site.node, ast.AugAssign)


def is_plain(site: Site) -> bool:
    return isinstance(site.node, ast.Assign) and computes_data(site.node, site.function)


def is_initial(site: Site) -> bool:
    return isinstance(site.node, ast.Assign) and isinstance(site.node.value, ast.Constant) and bool(site.loops)


def is_second_statement(site: Site) -> bool:
    """A statement right behind another one in the same block."""
    if not is_data_statement(site):
        return False
    block = site.block
    position = _position(site)
    return position > 0 and isinstance(block[position - 1], ast.Assign | ast.AugAssign)


def _position(site: Site) -> int:
    return next(number for number, node in enumerate(site.block) if node is site.node)


def drop(site: Site) -> None:
    site.replace()


def repeat(site: Site) -> None:
    site.replace(site.node, site.node)


def exchange(site: Site) -> None:
    block, position = site.block, _position(site)
    block[position - 1], block[position] = block[position], block[position - 1]


def assign(site: Site) -> None:
    assert isinstance(site.node, ast.AugAssign)
    site.replace(ast.Assign([site.node.target], site.node.value, lineno=0))


def augment(site: Site) -> None:
    assert isinstance(site.node, ast.Assign)
    target = site.node.targets[0]
    assert isinstance(target, ast.Name | ast.Subscript | ast.Attribute)
    site.replace(ast.AugAssign(target, ast.Add(), site.node.value))


OPPOSITE: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


def opposite_augment(site: Site) -> object:
    assert isinstance(site.node, ast.AugAssign)
    operator = OPPOSITE.get(type(site.node.op))
    if operator is None:
        return False
    site.node.op = operator()
    return True


def start_at(text: str) -> Callable[[Site], object]:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Assign)
        site.node.value = ast.parse(text, mode="eval").body

    return change


def only_if(condition: str) -> Callable[[Site], object]:
    """The statement runs only where the condition on its value holds."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Assign | ast.AugAssign)
        (guard,) = statements(f"if {condition}:\n    pass", X=site.node.value)
        assert isinstance(guard, ast.If)
        guard.body = [site.node]
        site.replace(guard)

    return change


def leave_loop_if(condition: str) -> Callable[[Site], object]:
    """The innermost loop ends once the condition on a stored value holds."""

    def change(site: Site) -> object:
        assert isinstance(site.node, ast.Assign | ast.AugAssign)
        loop = site.loops[-1] if site.loops else None
        if loop is None or "prange" in ast.unparse(loop.iter):
            return False
        target = site.node.target if isinstance(site.node, ast.AugAssign) else site.node.targets[0]
        site.replace(site.node, *statements(f"if {condition}:\n    break", X=target))
        return True

    return change


def out_of_loop(site: Site) -> object:
    """The statement runs once, behind its innermost loop, with the loop's last iteration."""
    loop = site.loops[-1] if site.loops else None
    if loop is None or site.block is not loop.body or len(loop.body) < 2 or "prange" in ast.unparse(loop.iter):
        return False
    outside = Site(loop, site.parents[: site.parents.index(loop)])
    site.replace()
    outside.replace(loop, site.node)
    return True


STATEMENT_FAULTS = (
    Fault(
        "statement-dropped",
        "a statement is missing",
        at_each(is_data_statement, drop),
        "what it computes is overwritten before it is read",
    ),
    Fault(
        "statement-twice",
        "a statement runs twice",
        at_each(is_data_statement, repeat),
        "computing it again gives the same value",
    ),
    Fault(
        "statements-exchanged",
        "two statements change places",
        at_each(is_second_statement, exchange),
        "they touch different data",
    ),
    Fault(
        "statement-out-of-loop",
        "a statement runs only after the loop's last iteration",
        at_each(is_data_statement, out_of_loop),
        "only its last value counts",
    ),
    Fault(
        "augmented-becomes-plain",
        "`+=` becomes `=`",
        at_each(is_augmented, assign),
        "the target is zero before",
    ),
    Fault(
        "plain-becomes-augmented",
        "`=` becomes `+=`",
        at_each(is_plain, augment),
        "the target is zero before",
    ),
    Fault(
        "opposite-augmented",
        "`+=` becomes `-=`, `*=` becomes `/=`",
        at_each(is_augmented, opposite_augment),
        "the value is zero, or one",
    ),
    Fault(
        "initial-value-wrong",
        "an accumulator starts at 1",
        at_each(is_initial, start_at("1.0")),
        "no result comes from it at the sizes for which that line is",
        scope=Scope.FLOAT,
    ),
    Fault(
        "initial-value-tiny",
        "an accumulator starts at the smallest number instead of zero",
        at_each(is_initial, start_at("5e-324")),
        "the first value added is so large that the smallest number is lost",
        scope=Scope.FLOAT,
    ),
    Fault(
        "initial-value-negative-zero",
        "an accumulator starts at -0.0",
        at_each(is_initial, start_at("-0.0")),
        "something that is no negative zero is always added",
        scope=Scope.FLOAT,
    ),
    Fault(
        "zero-skipped",
        "a statement is skipped where its value is zero",
        at_each(is_number_statement, only_if("X != 0")),
        "adding a zero changes nothing but the sign of a zero, and the target is never one",
        scope=Scope.FLOAT,
    ),
    Fault(
        "nan-skipped",
        "a statement is skipped where its value is NaN",
        at_each(is_number_statement, only_if("X == X")),
        "the value comes from numbers in the program",
        scope=Scope.FLOAT,
    ),
    Fault(
        "negative-skipped",
        "a statement is skipped where its value is negative",
        at_each(is_number_statement, only_if("not X < 0")),
        "the value is never negative",
        scope=Scope.FLOAT,
    ),
    Fault(
        "stops-at-nan",
        "a loop ends once a NaN has been stored",
        at_each(is_number_statement, leave_loop_if("X != X")),
        "everything that the loop still computes is a NaN",
        scope=Scope.FLOAT,
    ),
    Fault(
        "stops-at-zero",
        "a loop ends once a zero has been stored",
        at_each(is_number_statement, leave_loop_if("X == 0")),
        "the rest of the loop only adds zeros",
        scope=Scope.FLOAT,
    ),
)
