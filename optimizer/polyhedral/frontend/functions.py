"""Which functions a kernel may call: scalar functions of Python, math and NumPy, and pure functions of its own file."""

from __future__ import annotations

import ast
from enum import Enum

from optimizer.polyhedral.frontend.source import Module

DTYPES = frozenset(
    {"float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}
)


class Result(Enum):
    """What type a function returns."""

    FLOAT = "float"
    """float32 for float32, else float64."""
    SAME = "same"
    """That of its arguments, joined."""
    WHOLE = "whole"
    """int64."""
    TRUTH = "truth"
    """bool."""


_FLOAT = {
    "math": "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
    "atanh fabs pow hypot copysign erf erfc gamma lgamma fmod degrees radians",
    "numpy": "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh "
    "arccosh arctanh fabs floor ceil trunc hypot copysign cbrt",
}
_SAME = {"numpy": "abs absolute minimum maximum fmin fmax power square sign"}
_WHOLE = {"math": "floor ceil trunc"}
_TRUTH = {"math": "isnan isinf isfinite", "numpy": "isnan isinf isfinite"}


def _table() -> dict[str, Result]:
    table = {"abs": Result.SAME, "min": Result.SAME, "max": Result.SAME, "pow": Result.SAME}
    groups = ((_FLOAT, Result.FLOAT), (_SAME, Result.SAME), (_WHOLE, Result.WHOLE), (_TRUTH, Result.TRUTH))
    for group, result in groups:
        for module, names in group.items():
            table |= {f"{module}.{name}": result for name in names.split()}
    return table


SCALAR_FUNCTIONS = _table()
CASTS = {"float": "float64", "int": "int64", "bool": "bool", "numpy.bool_": "bool", "numpy.bool": "bool"} | {
    f"numpy.{dtype}": dtype for dtype in DTYPES if dtype != "bool"
}
_TRANSPARENT = frozenset(
    {"numba.njit", "numba.jit", "jaxtyping.jaxtyped", "beartype.beartype", "typeguard.typechecked"}
)
_MEANINGFUL = frozenset({"locals", "pipeline_class", "target"})
"""Options of `jit` under which a function may compute something else."""
NAMED_NUMBERS = frozenset(
    {f"{module}.{name}" for module in ("math", "numpy") for name in ("pi", "e", "inf", "nan")}
    | {"math.tau", "numpy.euler_gamma"}
)


def is_number(module: Module, node: ast.expr, within: tuple[str, ...] = ()) -> bool:
    """Whether a module-level expression is a number that never changes: literals, other such numbers, `math.pi`, ..."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float)
        case ast.UnaryOp(operand=operand):
            return is_number(module, operand, within)
        case ast.BinOp(left=left, right=right):
            return is_number(module, left, within) and is_number(module, right, within)
        case ast.Name(id=name) if name in module.constants:
            return name not in within and is_number(module, module.constants[name], (*within, name))
        case ast.Call(func=function, args=arguments, keywords=[]):
            name = module.resolve(function)
            known = name in SCALAR_FUNCTIONS or name in CASTS
            return known and all(is_number(module, argument, within) for argument in arguments)
        case _:
            return module.resolve(node) in NAMED_NUMBERS


class Impure(Exception):
    """A function is more than a pure function of scalars: where and why, and what to write."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


def is_transparent(module: Module, decorator: ast.expr) -> bool:
    """Whether a decorator leaves the meaning of a function alone."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    options = {word.arg for word in decorator.keywords} if isinstance(decorator, ast.Call) else set[str | None]()
    return module.resolve(function) in _TRANSPARENT and not options & _MEANINGFUL


def check_pure(module: Module, function: ast.FunctionDef, callers: tuple[str, ...] = ()) -> None:
    """Checks that calling `function` only computes a number from numbers.

    Raises:
        Impure: at the first thing that is anything else.
    """
    if function.name in callers:
        raise Impure(function, "it calls itself")
    for decorator in function.decorator_list:
        if not is_transparent(module, decorator):
            raise Impure(decorator, f"decorator `@{ast.unparse(decorator)}` may change what it does")
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        raise Impure(function, "it takes any number of arguments")
    local = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    local |= {
        node.id for node in _walk(function.body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    if not any(isinstance(node, ast.Return) and node.value is not None for node in _walk(function.body)):
        raise Impure(function, "it returns nothing")
    for node in _walk(function.body):
        _check_node(module, node, local, (*callers, function.name))


def _walk(body: list[ast.stmt]) -> list[ast.AST]:
    return [node for statement in body for node in ast.walk(statement)]


_PLAIN = (
    ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.If | ast.For | ast.While | ast.Break | ast.Continue
    | ast.Pass | ast.Expr | ast.Constant | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.operator
    | ast.unaryop | ast.boolop | ast.cmpop | ast.expr_context | ast.Tuple | ast.keyword
)  # fmt: skip


def _check_node(module: Module, node: ast.AST, local: set[str], callers: tuple[str, ...]) -> None:
    match node:
        case ast.Name(id=name):
            known = name in local or name in module.constants or name in module.imports or name in module.functions
            if not known and name not in SCALAR_FUNCTIONS and name not in CASTS and name != "range":
                raise Impure(node, f"it uses `{name}`, which is not defined here")
        case ast.Call(func=function):
            called = module.resolve(function)
            if called in module.functions:
                check_pure(module, module.functions[called], callers)
            elif called not in SCALAR_FUNCTIONS and called not in CASTS and called != "range":
                raise Impure(node, f"it calls `{ast.unparse(function)}`")
        case ast.Attribute():
            full = module.resolve(node)
            if full not in SCALAR_FUNCTIONS and full not in CASTS and full not in NAMED_NUMBERS:
                raise Impure(node, f"it uses `{ast.unparse(node)}`")
        case ast.Expr(value=value) if not isinstance(value, ast.Constant | ast.Call):
            raise Impure(node, "it does something other than compute a number")
        case _ if not isinstance(node, _PLAIN):
            raise Impure(
                node, f"it uses `{ast.unparse(node)}`" if isinstance(node, ast.expr) else "it does more than compute"
            )
        case _:
            return
