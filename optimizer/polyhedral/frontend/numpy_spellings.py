"""Functions of NumPy that are others in short: `np.linalg.norm(x)` is `np.sqrt(np.sum(np.square(x)))`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from optimizer.polyhedral.frontend.functions import SCALAR_FUNCTIONS

_SHORT = {
    "linalg.norm": "np.sqrt(np.sum(np.square({0} * 1.0), {rest}))",
    "count_nonzero": "np.sum({0} != 0, {rest})",
    "ptp": "np.max({0}, {rest}) - np.min({0}, {rest})",
    "average": "np.mean({0}, {rest})",
    "trace": "np.sum(np.diag({0}))",
    "vdot": "np.dot({0}, {1})",
    "inner": "np.dot({0}, {1}.T)",
}
_OF_BOTH = [
    "subtract", "add", "multiply", "divide", "true_divide", "maximum", "minimum", "power", "hypot", "arctan2", "fmin",
    "fmax",
]  # fmt: skip
_STORING = frozenset(
    [
        *_OF_BOTH, "mod", "remainder", "floor_divide", "negative", "dot", "matmul", "outer", "clip",
        "cumsum", "cumprod", "sum", "mean", "prod", "logical_and", "logical_or", "logical_not", "less", "less_equal",
        "greater",
        "greater_equal", "equal", "not_equal",
        "copysign",
    ]
)  # fmt: skip
"""Beside functions of numbers: those that take `out`."""


def longer_form(
    function: str, numpy: str, arguments: Sequence[ast.expr], words: Mapping[str, ast.expr]
) -> ast.expr | None:
    """The same in other functions of NumPy, which the module calls `numpy`; None for one that is not made of others."""
    base = function.removesuffix(".outer")
    if base != function and base in _OF_BOTH and len(arguments) == 2 and not words:
        left = ast.Subscript(arguments[0], ast.Tuple([ast.Slice(), ast.Constant(None)], ast.Load()), ast.Load())
        called = ast.Attribute(ast.Name(numpy, ast.Load()), base, ast.Load())
        return ast.Call(called, [left, arguments[1]], [])
    form = _SHORT.get(function)
    if form is None or len(arguments) != 1 + ("{1}" in form) or set(words) - {"axis", "keepdims"}:
        return None
    if words and "{rest}" not in form:
        return None
    rest = ", ".join(f"{name}={ast.unparse(value)}" for name, value in words.items())
    text = form.replace("np.", f"{numpy}.").format(*(f"({ast.unparse(value)})" for value in arguments), rest=rest)
    return ast.parse(text.replace(", )", ")"), mode="eval").body


def stored_result(function: str, call: ast.Call) -> ast.Assign | None:
    """`out[...] = np.add(a, b)` for `np.add(a, b, out=out)`; None for a call that stores nothing."""
    known = function in _STORING or f"numpy.{function}" in SCALAR_FUNCTIONS
    words = {word.arg: word.value for word in call.keywords}
    if function == "copyto" and len(call.args) == 2 and not words:
        return _assigned(call.args[0], call.args[1])
    if not known:
        return None
    places = 3 if function in {*_OF_BOTH, "dot", "matmul", "mod", "remainder", "floor_divide", "outer"} else 2
    if function == "clip":
        places = 4
    out = words.pop("out", None)
    arguments = call.args
    if out is None and len(arguments) == places and function not in {"sum", "mean", "prod", "cumsum", "cumprod"}:
        *arguments, out = arguments
    if out is None or None in words:
        return None
    keywords = [word for word in call.keywords if word.arg != "out"]
    return _assigned(out, ast.Call(call.func, arguments, keywords))


def _assigned(place: ast.expr, value: ast.expr) -> ast.Assign:
    target = ast.Subscript(place, ast.Constant(Ellipsis), ast.Store())
    return ast.Assign([target], value)
