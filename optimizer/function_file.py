"""A kernel that was given as a live function, as a file: what a run's folder can be resumed from later.

The file is the stand-alone original with its types written out, so it needs neither the function's own file, which may
change or not exist (a notebook), nor the example arguments that told the types.
"""

from __future__ import annotations

import ast

from optimizer.polyhedral.nest import Argument, ArgumentKind, Nest

PLAIN = {"int64": "int", "float64": "float", "bool": "bool"}
"""Annotations of scalars; others are NumPy's."""


def kernel_file_text(nest: Nest) -> str:
    """A module with the nest's function, annotated in full."""
    module = ast.parse(nest.original)
    function = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == nest.name)
    arguments = {argument.name: argument for argument in nest.arguments}
    for node in (*function.args.posonlyargs, *function.args.args):
        node.annotation = ast.parse(_annotation(nest, arguments[node.arg]), mode="eval").body
    needed = sorted({_array_type(array.dtype) for array in nest.arrays})
    imports = ["import numpy", f"from jaxtyping import {', '.join(needed)}"] if needed else ["import numpy"]
    return "\n".join([*imports, "", ast.unparse(module), ""])


def _annotation(nest: Nest, argument: Argument) -> str:
    if argument.kind is not ArgumentKind.ARRAY:
        return PLAIN.get(argument.dtype, f"numpy.{argument.dtype}")
    shape = " ".join(extent.replace(" ", "") for extent in nest.array(argument.name).shape)
    return f"{_array_type(argument.dtype)}[numpy.ndarray, {shape!r}]"


def _array_type(dtype: str) -> str:
    """jaxtyping's name: Float64, Int32, UInt8, Bool."""
    return dtype.replace("uint", "UInt") if dtype.startswith("uint") else dtype.capitalize()
