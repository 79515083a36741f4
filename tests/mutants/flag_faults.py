"""Faults of the compiler's flags: more freedom with floating-point numbers than the mode gives."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

from tests.mutants.fault import Fault, Scope, whole
from tests.mutants.site import sites, work_functions


def contracts(node: ast.AST) -> bool:
    """A sum or difference of a product."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            return any(isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) for side in (left, right))
        case ast.AugAssign(op=ast.Add() | ast.Sub(), value=ast.BinOp(op=ast.Mult())):
            return True
        case _:
            return False


def divides(node: ast.AST) -> bool:
    return isinstance(node, ast.Div)


def anything(node: ast.AST) -> bool:
    return True


def with_fastmath(
    text: str, needs: Callable[[ast.AST], bool] = anything
) -> Callable[[ast.Module, random.Random], object]:
    """Other flags for code that has some operation for which they matter."""

    def change(module: ast.Module, rng: random.Random) -> object:
        if not any(needs(node) for site in sites(module) for node in (site.node, getattr(site.node, "op", site.node))):
            return False
        for function in work_functions(module):
            decorator = function.decorator_list[0]
            assert isinstance(decorator, ast.Call)
            kept = [keyword for keyword in decorator.keywords if keyword.arg != "fastmath"]
            decorator.keywords = [*kept, ast.keyword("fastmath", ast.parse(text, mode="eval").body)]
        return True

    return change


NOTHING_TO_CHANGE = "the compiler made no use of the flag: the code has no operations that it could change"

FLAG_FAULTS = (
    Fault(
        "contracted",
        "strict code may be contracted",
        whole(with_fastmath("{'contract'}", contracts)),
        NOTHING_TO_CHANGE,
        Scope.STRICT,
        is_compiled_only=True,
    ),
    Fault(
        "reassociated",
        "sums of strict code may be reordered",
        whole(with_fastmath("{'reassoc', 'nsz'}")),
        NOTHING_TO_CHANGE,
        Scope.STRICT,
        is_compiled_only=True,
    ),
    Fault(
        "signs-of-zeros-ignored",
        "strict code may mix up signed zeros",
        whole(with_fastmath("{'nsz'}")),
        NOTHING_TO_CHANGE,
        Scope.STRICT,
        is_compiled_only=True,
    ),
    Fault(
        "reciprocals",
        "strict code may divide by multiplying with reciprocals",
        whole(with_fastmath("{'arcp'}", divides)),
        NOTHING_TO_CHANGE,
        Scope.STRICT,
        is_compiled_only=True,
    ),
    Fault(
        "fast",
        "strict code may be changed in every way",
        whole(with_fastmath("True")),
        NOTHING_TO_CHANGE,
        Scope.STRICT,
        is_compiled_only=True,
    ),
    Fault(
        "special-values-ignored",
        "contracted code may take it that there are no NaN and infinities",
        whole(with_fastmath("{'contract', 'nnan', 'ninf'}")),
        NOTHING_TO_CHANGE,
        Scope.CONTRACT,
        is_compiled_only=True,
    ),
)
