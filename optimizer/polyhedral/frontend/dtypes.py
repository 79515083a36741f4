"""Types of scalar expressions, by Numba's rules: what a variable of the source holds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeAlias

from optimizer.polyhedral.frontend.functions import CASTS, SCALAR_FUNCTIONS, Result
from optimizer.polyhedral.frontend.source import Module

TypeOf: TypeAlias = Callable[[ast.expr], str | None]
"""NumPy's name of the type of a name or an array element; None while it is not known yet."""


def join(left: str | None, right: str | None) -> str | None:
    """The type that holds both, as Numba gives a variable assigned twice."""
    if left is None or right is None or left == right:
        return left or right
    if left.startswith("float") or right.startswith("float"):
        return _mixed(left, right)
    return _whole(left, right)


def infer(node: ast.expr, type_of: TypeOf, module: Module) -> str | None:
    """The type of `node`; None when a part of it is not known yet."""

    def of(part: ast.expr) -> str | None:
        return infer(part, type_of, module)

    match node:
        case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return "bool"
        case ast.Constant(value=int()):
            return "int64"
        case ast.Constant():
            return "float64"
        case ast.UnaryOp(operand=operand):
            return _arithmetic(of(operand), of(operand))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _float(_arithmetic(of(left), of(right)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = of(left), of(right)
            is_whole_power = exponent is not None and not exponent.startswith("float")
            return base if base == "float32" and is_whole_power else _arithmetic(base, exponent)
        case ast.BinOp(left=left, right=right):
            return _arithmetic(of(left), of(right))
        case ast.BoolOp(values=values):
            return _joined([of(value) for value in values])
        case ast.IfExp(body=body, orelse=orelse):
            return join(of(body), of(orelse))
        case ast.Call(func=function, args=arguments):
            return _call(module.resolve(function), [of(argument) for argument in arguments], module)
        case _:
            return type_of(node)


def _call(name: str, arguments: list[str | None], module: Module) -> str | None:
    if name in CASTS:
        return CASTS[name]
    if name in module.functions:
        return _returned(module.functions[name], arguments, module)
    match SCALAR_FUNCTIONS.get(name):
        case Result.SAME:
            return _joined(arguments)
        case Result.WHOLE:
            return "int64"
        case Result.TRUTH:
            return "bool"
        case _:
            return _float(_joined(arguments))


def _returned(function: ast.FunctionDef, arguments: list[str | None], module: Module) -> str | None:
    """What a helper function returns; its variables' types grow until nothing changes."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    types: dict[str, str | None] = dict(zip(names, arguments, strict=False))
    result: str | None = None

    def type_of(node: ast.expr) -> str | None:
        if isinstance(node, ast.Name) and node.id in types:
            return types[node.id]
        return constant_type(node, module)

    for _ in range(4):
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    types[name] = join(types.get(name), infer(value, type_of, module))
                case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
                    whole = ast.BinOp(ast.Name(target.id, ast.Load()), operator, value)
                    types[name] = join(types.get(name), infer(whole, type_of, module))
                case ast.For(target=ast.Name(id=name)):
                    types[name] = join(types.get(name), "int64")
                case ast.Return(value=ast.expr() as value):
                    result = join(result, infer(value, type_of, module))
                case _:
                    pass
    return result


def constant_type(node: ast.expr, module: Module) -> str | None:
    """The type of a module-level constant or of `math.pi` and its like."""
    if isinstance(node, ast.Name) and node.id in module.constants:
        return infer(module.constants[node.id], lambda inner: constant_type(inner, module), module)
    return "float64"


def _joined(types: list[str | None]) -> str | None:
    joined: str | None = None
    for dtype in types:
        joined = join(joined, dtype)
    return joined


def _arithmetic(left: str | None, right: str | None) -> str | None:
    """The type of `left + right`: whole numbers are computed in 64 bits."""
    if left is None or right is None:
        return left or right
    if left.startswith("float") or right.startswith("float"):
        return _mixed(left, right)
    return _whole(left, right, at_least_64_bits=True)


def _mixed(left: str, right: str) -> str:
    """float32 only where no value of the other type is lost."""
    exact = {"float32", "int8", "uint8", "int16", "uint16", "bool"}
    return "float32" if left in exact and right in exact else "float64"


def _whole(left: str, right: str, at_least_64_bits: bool = False) -> str:
    kinds = {left.rstrip("0123456789"), right.rstrip("0123456789")} - {"bool"}
    if kinds == {"int", "uint"}:
        return "float64" if "uint64" in (left, right) else "int64"
    kind = "uint" if kinds == {"uint"} else "int"
    if at_least_64_bits or not kinds:
        return f"{kind}64"
    return f"{kind}{max(int(dtype.lstrip('uint')) for dtype in (left, right) if dtype != 'bool')}"


def _float(dtype: str | None) -> str | None:
    return "float32" if dtype == "float32" else (None if dtype is None else "float64")
