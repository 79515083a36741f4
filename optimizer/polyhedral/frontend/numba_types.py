"""Types of arguments from the signatures that Numba's decorators take: `@njit("void(float64[:,:], int64)")`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeAlias

from optimizer.polyhedral.frontend.functions import DTYPES
from optimizer.polyhedral.frontend.source import Module

Declared: TypeAlias = tuple[str, tuple[None, ...] | None]
"""NumPy's name of a type, and one None for each dimension of an array; None for a number."""

_NAMES = {name: name for name in DTYPES} | {
    "double": "float64", "f8": "float64", "float_": "float32", "f4": "float32",
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "intp": "int64", "int_": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "uintp": "uint64", "uint": "uint64",
    "bool_": "bool", "boolean": "bool", "b1": "bool",
}  # fmt: skip


def declared_types(module: Module, function: ast.FunctionDef, names: Sequence[str]) -> dict[str, Declared]:
    """The types that a decorator declares for arguments, by name; only those that all its signatures agree on.

    Raises:
        SourceError: for a signature of another number of arguments.
    """
    found: list[dict[str, Declared | None]] = []
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or module.resolve(decorator.func) not in {"numba.njit", "numba.jit"}:
            continue
        words = [word.value for word in decorator.keywords if word.arg == "signature_or_function"]
        for signature in (*decorator.args[:1], *words):
            for one in signature.elts if isinstance(signature, ast.List) else [signature]:
                types = _argument_types(one)
                if types is None:
                    continue
                if len(types) != len(names):
                    message = f"this signature has {len(types)} types for {len(names)} arguments of `{function.name}`"
                    raise module.source.error(one, message, "name one type for each argument")
                found.append(dict(zip(names, map(_declared, types), strict=True)))
    agreed: dict[str, Declared] = {}
    for name in names:
        types_of_name = {each[name] for each in found}
        if len(types_of_name) == 1 and (only := types_of_name.pop()) is not None:
            agreed[name] = only
    return agreed


def _argument_types(signature: ast.expr) -> list[ast.expr] | None:
    """Of `result(...)` or `(...)`, as an expression or in a text; None for what is no signature."""
    match signature:
        case ast.Constant(value=str() as text):
            try:
                return _argument_types(ast.parse(text.strip(), mode="eval").body)
            except SyntaxError:
                return None
        case ast.Call(args=types, keywords=[]) | ast.Tuple(elts=types):
            return types
        case ast.Name() | ast.Attribute() | ast.Subscript():
            # `(float64)` of a text is one type in parentheses.
            return [signature]
        case _:
            return None


def _declared(node: ast.expr) -> Declared | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _NAMES:
            return _NAMES[name], None
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=dimensions) if name in _NAMES:
            every = dimensions.elts if isinstance(dimensions, ast.Tuple) else [dimensions]
            is_array = all(isinstance(each, ast.Slice) for each in every)
            return (_NAMES[name], (None,) * len(every)) if is_array else None
        case _:
            return None
