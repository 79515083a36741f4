"""Reads expressions over whole arrays: operators and functions of them, parts, and what they are reduced to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optimizer.polyhedral.frontend.accumulation import Accumulation
from optimizer.polyhedral.frontend.array_makers import made_array, named_type
from optimizer.polyhedral.frontend.array_parts import REARRANGING, rearranged
from optimizer.polyhedral.frontend.array_reductions import REDUCTIONS, Reducer
from optimizer.polyhedral.frontend.array_values import (
    ArrayValue,
    Build,
    binary,
    computed,
    elementwise,
    named_array,
    part_of,
    scalar,
    transposed,
)
from optimizer.polyhedral.frontend.functions import CASTS, SCALAR_FUNCTIONS
from optimizer.polyhedral.frontend.numpy_spellings import longer_form
from optimizer.polyhedral.frontend.placing import placed
from optimizer.polyhedral.frontend.quantities import ShapeError, of_affine, whole
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope
from optimizer.polyhedral.frontend.subscripting import is_over_many, subscripted

_OPERATORS: dict[str, ast.operator] = {
    "add": ast.Add(), "subtract": ast.Sub(), "multiply": ast.Mult(), "divide": ast.Div(), "true_divide": ast.Div(),
    "floor_divide": ast.FloorDiv(), "mod": ast.Mod(), "remainder": ast.Mod(), "bitwise_and": ast.BitAnd(),
    "bitwise_or": ast.BitOr(), "bitwise_xor": ast.BitXor(),
}  # fmt: skip
_JOINS: dict[str, ast.boolop] = {"logical_and": ast.And(), "logical_or": ast.Or()}
_COMPARISONS: dict[str, ast.cmpop] = {
    "less": ast.Lt(), "less_equal": ast.LtE(), "greater": ast.Gt(), "greater_equal": ast.GtE(), "equal": ast.Eq(),
    "not_equal": ast.NotEq(),
}  # fmt: skip
_METHODS = REDUCTIONS | frozenset(
    [
        "dot", "copy", "transpose", "astype", "clip", "cumsum", "cumprod", "ptp", "trace", "reshape", "ravel",
        "flatten", "squeeze", "diagonal",
    ]
)  # fmt: skip


@dataclass(slots=True)
class ArrayReader:
    """What has to be computed before the expressions that were read collects in `before`."""

    scope: Scope
    declare: Callable[[str, ArrayInfo], None]
    before: list[ast.stmt] = field(default_factory=list[ast.stmt])
    is_about_arrays: bool = False
    """Whether something was read that is more than an element of an array."""

    @property
    def accumulation(self) -> Accumulation:
        return Accumulation(self.scope, self.declare, self.before)

    def _reducer(self) -> Reducer:
        self.is_about_arrays = True
        return Reducer(self.accumulation, self._each, self._numpy)

    def value(self, node: ast.expr) -> ArrayValue:
        """What an expression is; anything that is not about whole arrays is a number.

        Raises:
            ShapeError: for extents that do not go together, and for what has no meaning here.
            NotAffine: for a bound of a slice or a size that is no affine number.
        """
        if self.scope.extent(node) is not None:
            return scalar(node, 1)
        match node:
            case ast.Name(id=name) if name in self.scope.views:
                self.is_about_arrays = True
                return self.scope.views[name]
            case ast.Name(id=name) if name in self.scope.arrays:
                self.is_about_arrays = True
                info = self.scope.arrays[name]
                return named_array(name, info.dtype, [of_affine(extent) for extent in info.extents])
            case ast.Subscript(value=base, slice=index):
                return self._subscripted(node, base, list(index.elts) if isinstance(index, ast.Tuple) else [index])
            case ast.Attribute(value=base, attr="T") if (inner := self.value(base)).rank:
                return transposed(inner, range(inner.rank)[::-1])
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self._reducer().product(self.value(left), self.value(right))
            case ast.BinOp(left=left, op=operator, right=right):
                return self._each([self.value(left), self.value(right)], binary(operator))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary(operator, self.value(operand))
            case ast.BoolOp(op=operator, values=values):
                return self._numbers(values, lambda parts: ast.BoolOp(operator, parts))
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                sides = [self.value(side) for side in (left, *comparators)]
                if len(operators) > 1 and any(side.rank for side in sides):
                    raise ShapeError("a chain of comparisons of arrays has no value")
                return self._each(sides, lambda parts: ast.Compare(parts[0], operators, parts[1:]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                if self.value(test).rank:
                    raise ShapeError("whether an array is true has no answer: use np.where")
                return self._chosen([self.value(part) for part in (test, body, orelse)])
            case ast.Call():
                return self._call(node)
            case ast.Constant(value=bool() | int() | float() as number):
                return scalar(node, type(number)(1))
            case _:
                return scalar(node, self._sample_of(node))

    def _sample_of(self, node: ast.expr) -> Any:
        """A value of the type that a number of the source has: an argument is a Python number."""
        match node:
            case ast.Name(id=name) if name in self.scope.samples:
                return self.scope.samples[name]
            case ast.Name(id=name) if name in self.scope.arguments:
                kind = np.dtype(self.scope.arguments[name]).kind
                return True if kind == "b" else 1.0 if kind == "f" else 1
            case ast.Name(id=name) if name in self.scope.loops or name in self.scope.bindings:
                return 1
            case _:
                return 1.0

    def _subscripted(self, node: ast.Subscript, base: ast.expr, subscripts: list[ast.expr]) -> ArrayValue:
        array = self._array_of_element(node, 0)
        if array is not None:
            return scalar(node, np.ones(1, self.scope.arrays[array].dtype)[0])
        inner = self.value(base)
        return subscripted(self.scope, inner, subscripts) if inner.rank else scalar(node)

    def _array_of_element(self, node: ast.expr, count: int) -> str | None:
        """The array of which `A[i, j]` or `A[i][j]` is one element; None for anything else."""
        match node:
            case ast.Subscript(value=base, slice=index):
                own = index.elts if isinstance(index, ast.Tuple) else [index]
                return None if any(map(is_over_many, own)) else self._array_of_element(base, count + len(own))
            case ast.Name(id=name) if name in self.scope.arrays and name not in self.scope.views:
                return name if len(self.scope.arrays[name].extents) == count else None
            case _:
                return None

    def _each(self, values: Sequence[ArrayValue], build: Build) -> ArrayValue:
        """NumPy says what type comes out."""
        names = {f"value_{k}": value.sample for k, value in enumerate(values)}
        built = ast.Expression(build([ast.Name(name, ast.Load()) for name in names]))
        space = {bound: np for bound, origin in self.scope.module.imports.items() if origin == "numpy"}
        try:
            with np.errstate(all="ignore"):
                sample = eval(compile(ast.fix_missing_locations(built), "<type>", "eval"), {**space, **names})
        except (TypeError, ValueError, NameError, AttributeError, ArithmeticError) as error:
            if not any(value.rank for value in values):
                return elementwise(values, build, 1.0)
            raise ShapeError(str(error)) from None
        return elementwise(values, build, sample)

    def _numbers(self, nodes: Sequence[ast.expr], build: Build) -> ArrayValue:
        values = [self.value(node) for node in nodes]
        if any(value.rank for value in values):
            raise ShapeError("whether an array is true has no answer: use np.logical_and and its like")
        return elementwise(values, build, True)

    def _unary(self, operator: ast.unaryop, value: ArrayValue) -> ArrayValue:
        if isinstance(operator, ast.Not) and value.rank:
            raise ShapeError("whether an array is true has no answer: use np.logical_not")
        if isinstance(operator, ast.Invert) and value.dtype == "bool":
            operator = ast.Not()
            return elementwise([value], lambda parts: ast.UnaryOp(operator, parts[0]), value.sample)
        return self._each([value], lambda parts: ast.UnaryOp(operator, parts[0]))

    def _chosen(self, values: Sequence[ArrayValue]) -> ArrayValue:
        sample = np.where(values[0].sample, values[1].sample, values[2].sample)
        return elementwise(values, lambda parts: ast.IfExp(*parts), sample)

    def _call(self, node: ast.Call) -> ArrayValue:
        module = self.scope.module
        words = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        name = module.resolve(node.func)
        if name.startswith("numpy."):
            return self._of_numpy(node, name.removeprefix("numpy."), list(node.args), words)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and self.value(node.func.value).rank:
            return self._of_numpy(node, node.func.attr, [node.func.value, *node.args], words)
        values = [self.value(argument) for argument in node.args]
        if not any(value.rank for value in values):
            return elementwise(values, lambda parts: ast.Call(node.func, parts, node.keywords), 1.0)
        if name == "abs":
            return self._each(values, lambda parts: ast.Call(ast.Name("abs", ast.Load()), parts, []))
        return scalar(node)

    def _of_numpy(
        self, node: ast.Call, function: str, arguments: list[ast.expr], words: Mapping[str, ast.expr]
    ) -> ArrayValue:
        made = made_array(self.scope, function, arguments, words, self.value)
        if made is not None:
            self.is_about_arrays = True
            return made
        if function == "astype" and len(arguments) == 2:
            return self._cast(self.value(arguments[0]), named_type(self.scope, arguments[1]))
        longer = longer_form(function, self._numpy_name(), arguments, words)
        ranks = [self.value(argument).rank for argument in arguments] if longer is not None else []
        if function == "vdot" and max(ranks, default=0) > 1:
            raise ShapeError("np.vdot of vectors only is supported")
        if longer is not None and any(ranks):
            return self.value(placed(longer, node))
        if function in REARRANGING:
            moved = rearranged(self.scope, function, arguments, words, self.value)
            if moved is not None:
                self.is_about_arrays = True
                return moved
        if function == "clip":
            return self._clipped(arguments, words)
        values = [self.value(argument) for argument in arguments]
        if function in {"cumsum", "cumprod"} and values and values[0].rank:
            return self._reducer().running(function, values[0], arguments[1:], words)
        if function in REDUCTIONS and values and values[0].rank:
            value = self._cast(values[0], named_type(self.scope, words["dtype"])) if "dtype" in words else values[0]
            return self._reducer().reduction(function, value, arguments[1:], words)
        before, self.is_about_arrays = self.is_about_arrays, True
        match function, values:
            case (("dot" | "matmul"), [left, right]) if left.rank and right.rank:
                return self._reducer().product(left, right)
            case "outer", [left, right] if left.rank == right.rank == 1:
                column = part_of(left, (*left.extents, whole(1)), lambda point: point[:1])
                return self._each([column, right], binary(ast.Mult()))
            case (("copy" | "ascontiguousarray" | "asarray"), [value]) if value.rank:
                return computed(value)
            case "where", [_, _, _]:
                return self._chosen(values)
            case "diff", [value] if value.rank and not words:
                return self._differences(value)
            case "negative", [value]:
                return self._unary(ast.USub(), value)
            case "logical_not", [value]:
                return elementwise([value], lambda parts: ast.UnaryOp(ast.Not(), parts[0]), np.ones(1, bool))
            case _, [_, _] if function in _OPERATORS:
                return self._each(values, binary(_OPERATORS[function]))
            case _, [_, _] if function in _COMPARISONS:
                return self._each(values, lambda parts: ast.Compare(parts[0], [_COMPARISONS[function]], [parts[1]]))
            case _, [_, _] if function in _JOINS:
                return elementwise(values, lambda parts: ast.BoolOp(_JOINS[function], parts), np.ones(1, bool))
            case _ if not words and (f"numpy.{function}" in SCALAR_FUNCTIONS or f"numpy.{function}" in CASTS):
                self.is_about_arrays = before
                return self._each(values, lambda parts: ast.Call(node.func, parts, []))
            case _ if any(value.rank for value in values):
                raise ShapeError(f"`{ast.unparse(node.func)}` of arrays is not supported")
            case _:
                self.is_about_arrays = before
                return scalar(node)

    def _cast(self, value: ArrayValue, kind: str) -> ArrayValue:
        return self._each([value], self._numpy("bool_" if kind == "bool" else kind))

    def _numpy(self, function: str) -> Build:
        """Calls of NumPy by the name that the module has for it."""
        name = self._numpy_name()
        return lambda parts: ast.Call(ast.Attribute(ast.Name(name, ast.Load()), function, ast.Load()), parts, [])

    def _numpy_name(self) -> str:
        names = [bound for bound, origin in self.scope.module.imports.items() if origin == "numpy"]
        if not names:
            raise ShapeError("the module does not import numpy")
        return names[0]

    def _clipped(self, arguments: Sequence[ast.expr], words: Mapping[str, ast.expr]) -> ArrayValue:
        given = dict(zip(("a", "a_min", "a_max"), arguments, strict=False)) | dict(words)
        value, self.is_about_arrays = self.value(given["a"]), True
        if set(given) - {"a", "a_min", "a_max"}:
            raise ShapeError("np.clip takes a lower and an upper bound here")
        for bound, function in (("a_min", "maximum"), ("a_max", "minimum")):
            node = given.get(bound)
            if node is not None and not (isinstance(node, ast.Constant) and node.value is None):
                value = self._each([value, self.value(node)], self._numpy(function))
        return value

    def _differences(self, value: ArrayValue) -> ArrayValue:
        """Of neighbours along the last dimension."""
        *outer, last = value.extents
        parts = [
            part_of(value, (*outer, last - whole(1)), lambda at, by=by: (*at[:-1], at[-1] + whole(by))) for by in (1, 0)
        ]
        return self._each(parts, binary(ast.Sub()))
