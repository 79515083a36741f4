"""`for i in range(...)`: the isl condition on the loop variable."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import Affine, Condition, number, variable
from optimizer.polyhedral.frontend.expressions import ExpressionReader


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a loop variable takes."""

    condition: Condition
    is_descending: bool
    is_prange: bool


def read_range(reader: ExpressionReader, node: ast.expr, name: str) -> Range:
    """What `range(...)` or `prange(...)` means for the loop variable `name`.

    Raises:
        SourceError: for any other iterable, a bound that is not affine, or a step that is not a constant.
    """
    match node:
        case ast.Call(args=[stop], keywords=[]):
            start, step = ast.Constant(0), 1
        case ast.Call(args=[start, stop], keywords=[]):
            step = 1
        case ast.Call(args=[start, stop, third], keywords=[]):
            step = _step(reader, third)
        case _:
            raise _not_a_range(reader, node)
    called = reader.scope.module.resolve(node.func)
    if called not in {"range", "numba.prange"}:
        raise _not_a_range(reader, node)
    if step > 0:
        lowers, uppers = _sides(reader, start, "max"), _sides(reader, stop, "min")
    else:
        lowers = [side + number(1) for side in _sides(reader, stop, "max")]
        uppers = [side + number(1) for side in _sides(reader, start, "min")]
    if len(lowers) == len(uppers) == 1:
        text = f"{lowers[0]} <= {name} < {uppers[0]}"
    else:
        text = " and ".join([f"{side} <= {name}" for side in lowers] + [f"{name} < {side}" for side in uppers])
    if abs(step) > 1:
        origin = reader.affine(start, "the start of this loop")
        distance = variable(name) - origin if step > 0 else origin - variable(name)
        text += f" and ({distance}) mod {abs(step)} = 0"
    names = frozenset({name}).union(*(side.names for side in (*lowers, *uppers)))
    return Range(Condition(text, names), step < 0, called == "numba.prange")


def _step(reader: ExpressionReader, node: ast.expr) -> int:
    value = reader.affine(node, "the step of this loop")
    if not value.is_constant or value.constant == 0:
        raise reader.error(node, "the step of a loop must be a whole number other than 0", "write `range(0, n, 2)`")
    return value.constant


def _sides(reader: ExpressionReader, node: ast.expr, name: str) -> list[Affine]:
    """The bounds that all hold: the arguments of an outermost `max` below, or `min` above."""
    match node:
        case ast.Call(func=ast.Name(id=called), args=[_, _, *_] as arguments, keywords=[]) if called == name:
            return [side for argument in arguments for side in _sides(reader, argument, name)]
        case _:
            return [reader.affine(node, "the bound of this loop")]


def _not_a_range(reader: ExpressionReader, node: ast.expr) -> Exception:
    hint = "loop over `range(...)` and use the loop variable as a subscript"
    return reader.error(node, f"a loop over `{ast.unparse(node)}` is not supported", hint)
