"""Arrays made inside a kernel: `np.zeros((n, m))` and its like."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import Affine
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.functions import CASTS, DTYPES
from optimizer.polyhedral.frontend.scope import ArrayInfo

LOCAL_MAKERS = {
    f"numpy.{fill}{like}": (fill, bool(like)) for fill in ("zeros", "empty", "ones") for like in ("", "_like")
}
_HINT = "write `np.zeros((n, m))` or `np.empty(n, dtype=np.float32)`, with sizes that are sums of arguments and extents"


@dataclass(frozen=True, slots=True)
class LocalArray:
    info: ArrayInfo
    fill: str


def read_local_array(reader: ExpressionReader, node: ast.expr) -> LocalArray | None:
    """The array that `node` makes; None when it makes none.

    Raises:
        SourceError: for an array whose shape or type cannot be known.
    """
    if not isinstance(node, ast.Call):
        return None
    name = reader.scope.module.resolve(node.func)
    if name not in LOCAL_MAKERS:
        return None
    fill, is_like = LOCAL_MAKERS[name]
    words = {keyword.arg: keyword.value for keyword in node.keywords}
    given = dict(zip(("shape", "dtype"), node.args, strict=False)) | words
    if is_like:
        given["shape"] = given.pop("prototype", given.pop("a", given.get("shape", node)))
    if "shape" not in given or not set(given) <= {"shape", "dtype"} or len(node.args) > 2:
        raise reader.error(node, f"`{ast.unparse(node)}` is not supported", _HINT)
    like = _array_named(reader, given["shape"]) if is_like else None
    if is_like and like is None:
        raise reader.error(node, f"`{ast.unparse(given['shape'])}` is not an array that is known here", _HINT)
    dtype = _dtype(reader, given["dtype"]) if "dtype" in given else (like.dtype if like else "float64")
    extents = like.extents if like else _extents(reader, given["shape"])
    for extent in extents:
        reader.scope.used |= extent.names
    return LocalArray(ArrayInfo(dtype, extents), fill)


def _array_named(reader: ExpressionReader, node: ast.expr) -> ArrayInfo | None:
    return reader.scope.arrays.get(node.id) if isinstance(node, ast.Name) else None


def _extents(reader: ExpressionReader, shape: ast.expr) -> tuple[Affine, ...]:
    if extents := reader.scope.shape(shape):
        return extents
    parts = shape.elts if isinstance(shape, ast.Tuple) else [shape]
    extents = tuple(reader.affine(part, "the size of this array") for part in parts)
    for part, extent in zip(parts, extents, strict=True):
        if not extent.is_linear or extent.names & set(reader.scope.loops.values()):
            message = (
                f"the size `{ast.unparse(part)}` of this array is not a sum of arguments, extents and whole numbers"
            )
            raise reader.error(part, message, "pass the size as an argument of the kernel")
    return extents


def _dtype(reader: ExpressionReader, node: ast.expr) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id=array), attr="dtype") if array in reader.scope.arrays:
            return reader.scope.arrays[array].dtype
        case ast.Constant(value=str() as name) if name in DTYPES:
            return name
        case _:
            full = reader.scope.module.resolve(node)
            if full not in CASTS:
                raise reader.error(node, f"`{ast.unparse(node)}` is not a type of array that is supported", _HINT)
            return CASTS[full]
