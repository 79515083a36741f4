"""Types of what is assigned, so that a choice between a new value and an old one loses nothing of either."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend import dtypes
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.functions import CASTS


@dataclass(frozen=True, slots=True)
class HeldTypes:
    reader: ExpressionReader

    def as_held(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """The value as its array holds it, where the common type of both could not hold all that the array can."""
        dtype, given = self._type_of(target), self.dtype(value)
        if not isinstance(target, ast.Subscript) or dtype is None:
            return value
        is_exact = given is not None and given != "uint64" and dtypes.join(dtype, given) in {dtype, "int64"}
        if is_exact or dtype in {"float64", "bool", given} or (dtype, given) == ("float32", "float64"):
            return value
        cast = self._cast(dtype)
        if cast is None:
            message = f"`{ast.unparse(target)}` is {dtype}, and this value may be of another type"
            raise self.reader.error(value, message, f"import NumPy and write `np.{dtype}({ast.unparse(value)})`")
        return ast.Call(cast, [value], [])

    def dtype(self, value: ast.expr) -> str | None:
        """The type of an expression; None unless the types of all its parts are known."""
        names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
        is_known = all(self._type_of(ast.Name(name, ast.Load())) for name in names)
        return dtypes.infer(value, self._type_of, self.reader.scope.module) if is_known else None

    def _type_of(self, node: ast.expr) -> str | None:
        """The type of a name or of elements of an array; None while it is not known."""
        scope = self.reader.scope
        match node:
            case ast.Subscript(value=array):
                return self._type_of(array)
            case ast.Name(id=name) if name in scope.views:
                return scope.views[name].dtype
            case ast.Name(id=name) if name in scope.arrays:
                return scope.arrays[name].dtype
            case ast.Name(id=name) if name in scope.truths:
                return "bool"
            case ast.Name(id=name) if name in scope.names.loops or name in scope.bindings:
                return "int64"
            case ast.Name(id=name) if name in scope.names.assigned:
                return None
            case ast.Name(id=name) if name in scope.arguments:
                return scope.arguments[name]
            case _:
                return dtypes.constant_type(node, scope.module)

    def _cast(self, dtype: str) -> ast.expr | None:
        """How the module calls the type."""
        for bound, origin in self.reader.scope.module.imports.items():
            if origin == "numpy":
                return ast.Attribute(ast.Name(bound, ast.Load()), dtype, ast.Load())
            if CASTS.get(origin) == dtype:
                return ast.Name(bound, ast.Load())
        return ast.Name("int", ast.Load()) if dtype == "int64" else None
