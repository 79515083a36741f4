"""Statements over whole arrays as loops over their elements, with NumPy's meaning.

What stands on the right is read before anything is written: where an element may be written before it is read, the
values go to an array of their own first. Sums and products get loops before the statement that uses them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.polyhedral.frontend import dtypes
from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.array_values import (
    ArrayValue,
    Point,
    ShapeError,
    broadcast_extents,
    elementwise,
    named_array,
    own_point,
    part_of,
    scalar,
    transposed,
    without_memory,
)
from optimizer.polyhedral.frontend.functions import CASTS, SCALAR_FUNCTIONS
from optimizer.polyhedral.frontend.quantities import Quantity, counter, of_affine, whole
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope
from optimizer.polyhedral.frontend.subscripting import subscripted

REDUCTIONS = ("sum", "prod", "min", "max", "mean", "any", "all")
_START = {"sum": 0, "mean": 0, "prod": 1}


@dataclass(slots=True)
class ArrayReader:
    """Reads expressions over arrays; what has to be computed before them collects in `before`."""

    scope: Scope
    declare: Callable[[str, ArrayInfo], None]
    before: list[ast.stmt] = field(default_factory=list[ast.stmt])

    def value(self, node: ast.expr) -> ArrayValue:
        """What an expression is; anything that is not about whole arrays is a number.

        Raises:
            ShapeError: for extents that do not go together.
            NotAffine: for a bound of a slice that is no affine number.
        """
        match node:
            case ast.Name(id=name) if name in self.scope.arrays:
                return named_array(name, [of_affine(extent) for extent in self.scope.arrays[name].extents])
            case ast.Subscript(value=base, slice=index) if (inner := self.value(base)).rank:
                subscripts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
                if len(subscripts) == inner.rank and not any(map(_is_over_many, subscripts)) and _is_plain(node):
                    return scalar(node)
                return subscripted(self.scope, inner, subscripts)
            case ast.Attribute(value=base, attr="T") if (inner := self.value(base)).rank:
                return transposed(inner, tuple(range(inner.rank))[::-1])
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self._product(self.value(left), self.value(right))
            case ast.BinOp(left=left, op=operator, right=right):
                return self._each([left, right], lambda parts: ast.BinOp(parts[0], operator, parts[1]))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._each([operand], lambda parts: ast.UnaryOp(operator, parts[0]))
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._each([left, right], lambda parts: ast.Compare(parts[0], [operator], [parts[1]]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._each([test, body, orelse], lambda parts: ast.IfExp(*parts))
            case ast.Call():
                return self._call(node)
            case _:
                return scalar(node)

    def _each(self, nodes: Sequence[ast.expr], build: Callable[[list[ast.expr]], ast.expr]) -> ArrayValue:
        return elementwise([self.value(node) for node in nodes], build)

    def _call(self, node: ast.Call) -> ArrayValue:
        name = self.scope.module.resolve(node.func)
        words = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Attribute) and (owner := self.value(node.func.value)).rank:
            if method in REDUCTIONS:
                return self._reduced(method, owner, _axis(node.args, words), _is_true(words.get("keepdims")))
            if method == "dot" and len(node.args) == 1:
                return self._product(owner, self.value(node.args[0]))
            if method == "copy" and not node.args:
                return without_memory(owner)
            if method == "transpose" and not node.args:
                return transposed(owner, tuple(range(owner.rank))[::-1])
        function = name.removeprefix("numpy.")
        values = [self.value(argument) for argument in node.args]
        match function, values:
            case (("dot" | "matmul"), [left, right]):
                return self._product(left, right)
            case "outer", [left, right] if left.rank == right.rank == 1:
                column = part_of(left, (*left.extents, whole(1)), lambda point: point[:1])
                return elementwise([column, right], lambda parts: ast.BinOp(parts[0], ast.Mult(), parts[1]))
            case "transpose", [value]:
                return transposed(value, tuple(range(value.rank))[::-1])
            case (("copy" | "ascontiguousarray" | "asarray"), [value]) if value.rank:
                return without_memory(value)
            case "where", [_, _, _]:
                return elementwise(values, lambda parts: ast.IfExp(parts[0], parts[1], parts[2]))
            case "clip", [_, _, _]:
                return elementwise(values, lambda parts: self._clipped(*parts))
            case _, [value, *_] if function in REDUCTIONS and name.startswith("numpy.") and value.rank:
                return self._reduced(function, value, _axis(node.args[1:], words), _is_true(words.get("keepdims")))
            case _ if not words and (name in SCALAR_FUNCTIONS or name in CASTS or name in self.scope.module.functions):
                return elementwise(values, lambda parts: ast.Call(node.func, parts, []))
            case _:
                return scalar(node)

    def _clipped(self, value: ast.expr, lowest: ast.expr, highest: ast.expr) -> ast.expr:
        return self._numpy("minimum", self._numpy("maximum", value, lowest), highest)

    def _numpy(self, function: str, *arguments: ast.expr) -> ast.expr:
        """A call of NumPy by the name that the module has for it."""
        name = next(bound for bound, origin in self.scope.module.imports.items() if origin == "numpy")
        return ast.Call(ast.Attribute(ast.Name(name, ast.Load()), function, ast.Load()), list(arguments), [])

    def _product(self, left: ArrayValue, right: ArrayValue) -> ArrayValue:
        """`@`: a result of its own, summed up in the order of the common dimension."""
        if not 1 <= left.rank <= 2 or not 1 <= right.rank <= 2:
            raise ShapeError(f"a product of {left.rank} and {right.rank} dimensions")
        common = broadcast_extents([left.extents[-1:], right.extents[:1]])[0]
        rows, columns = left.extents[:-1], right.extents[1:]
        inner = self.fresh("k")

        def factor(point: Point) -> ast.expr:
            first = left.element((*point[: len(rows)], counter(inner)))
            second = right.element((counter(inner), *point[len(rows) :]))
            return ast.BinOp(first, ast.Mult(), second)

        return self._accumulated("product", (*rows, *columns), ast.Add(), factor, [(inner, whole(0), common)], 0)

    def _reduced(self, kind: str, value: ArrayValue, axis: int | None, is_kept: bool) -> ArrayValue:
        """A sum and its like over one dimension or all."""
        if axis is not None and not -value.rank <= axis < value.rank:
            raise ShapeError(f"axis {axis} of {value.rank} dimensions")
        over = range(value.rank) if axis is None else (axis % value.rank,)
        names = {k: self.fresh("ijklmn"[k % 6]) for k in over}
        kept = [k for k in range(value.rank) if k not in names]

        def whole_point(point: Point, given: dict[int, Quantity]) -> Point:
            rest = dict(zip(kept, point, strict=True))
            return tuple(given[k] if k in given else rest[k] for k in range(value.rank))

        def element(point: Point) -> ast.expr:
            return value.element(whole_point(point, {k: counter(name) for k, name in names.items()}))

        extents = [value.extents[k] for k in kept]
        loops = [(names[k], whole(0), value.extents[k]) for k in over]
        match kind:
            case "sum" | "mean":
                result = self._accumulated("sum", extents, ast.Add(), element, loops, 0)
            case "prod":
                result = self._accumulated("prod", extents, ast.Mult(), element, loops, 1)
            case _:
                first = lambda point: value.element(whole_point(point, dict.fromkeys(names, whole(0))))  # noqa: E731
                result = self._extreme(kind, extents, element, first, loops)
        if kind == "mean":
            count = loops[0][2].node
            for _, _, extent in loops[1:]:
                count = ast.BinOp(count, ast.Mult(), extent.node)
            result = elementwise([result], lambda parts: ast.BinOp(parts[0], ast.Div(), count))
        if is_kept:
            every = [whole(1) if k in names else value.extents[k] for k in range(value.rank)]
            result = part_of(result, every, lambda point: tuple(point[k] for k in kept))
        return without_memory(result)

    def _accumulated(
        self,
        wanted: str,
        extents: Sequence[Quantity],
        operator: ast.operator,
        element: Callable[[Point], ast.expr],
        loops: Sequence[tuple[str, Quantity, Quantity]],
        start: int,
    ) -> ArrayValue:
        """A new array, or a number, that loops add up or multiply together."""
        points = self.points(extents)
        added = element(tuple(map(counter, points)))
        dtype = self.dtype(added)
        if not dtype.startswith("float"):
            dtype = "int64"
        result = self._made(wanted, ArrayInfo(dtype, tuple(extent.value for extent in extents)))
        target = result.element(tuple(map(counter, points)))
        initial = ast.Constant(float(start) if dtype.startswith("float") else start)
        around = [(name, whole(0), extent) for name, extent in zip(points, extents, strict=True)]
        self.before += nested(around, [ast.Assign([_stored(target)], initial)])
        again = {name: self.fresh(name) for name in points}
        inner = element(tuple(counter(again[name]) for name in points))
        target = result.element(tuple(counter(again[name]) for name in points))
        around = [(again[name], low, extent) for name, low, extent in around]
        self.before += nested([*around, *loops], [ast.AugAssign(_stored(target), operator, inner)])
        return result

    def _extreme(
        self,
        kind: str,
        extents: Sequence[Quantity],
        element: Callable[[Point], ast.expr],
        first: Callable[[Point], ast.expr],
        loops: Sequence[tuple[str, Quantity, Quantity]],
    ) -> ArrayValue:
        """The smallest and its like: begins with the first element, and looks at that again."""
        points = self.points(extents)
        at = tuple(map(counter, points))
        dtype = "bool" if kind in {"any", "all"} else self.dtype(element(at))
        result = self._made(kind, ArrayInfo(dtype, tuple(extent.value for extent in extents)))
        around = [(name, whole(0), extent) for name, extent in zip(points, extents, strict=True)]
        begin: ast.expr = ast.Constant(kind == "all") if dtype == "bool" and kind in {"any", "all"} else first(at)
        self.before += nested(around, [ast.Assign([_stored(result.element(at))], begin)])
        again = {name: self.fresh(name) for name in points}
        at = tuple(counter(again[name]) for name in points)
        around = [(again[name], low, extent) for name, low, extent in around]
        old, new = result.element(at), element(at)
        value: ast.expr
        match kind:
            case "min":
                value = self._numpy("minimum", old, new)
            case "max":
                value = self._numpy("maximum", old, new)
            case "any":
                value = ast.BoolOp(ast.Or(), [old, ast.Compare(new, [ast.NotEq()], [ast.Constant(0)])])
            case _:
                value = ast.BoolOp(ast.And(), [old, ast.Compare(new, [ast.NotEq()], [ast.Constant(0)])])
        self.before += nested([*around, *loops], [ast.Assign([_stored(old)], value)])
        return result

    def _made(self, wanted: str, info: ArrayInfo) -> ArrayValue:
        """A new array, or a new scalar variable."""
        name = self.fresh(wanted)
        if not info.extents:
            self.scope.names.assigned[name] += 2
            self.scope.local_types[name] = info.dtype
            return scalar(ast.Name(name, ast.Load()))
        self.declare(name, info)
        return named_array(name, [of_affine(extent) for extent in info.extents])

    def dtype(self, node: ast.expr) -> str:
        """The type of one element, by Numba's rules."""
        return dtypes.infer(node, self.scope.type_of, self.scope.module) or "float64"

    def fresh(self, wanted: str) -> str:
        return self.scope.names.fresh(wanted)

    def points(self, extents: Sequence[Quantity]) -> list[str]:
        """A loop variable for each dimension."""
        return [self.fresh("ijklmn"[k % 6]) for k in range(len(extents))]

    def stores(self, target: ArrayValue, value: ArrayValue, operator: ast.operator | None = None) -> list[ast.stmt]:
        """The loops that write every element of `target`. Raises `ShapeError` when the value does not fit."""
        fitted = broadcast_extents([target.extents, value.extents])
        if len(fitted) > target.rank or not all(map(Quantity.equals, fitted, target.extents)):
            raise ShapeError("the value has another shape than what it is assigned to")
        points = self.points(target.extents)
        at = tuple(map(counter, points))
        stored, element = _stored(target.element(at)), value.element(own_point(value.extents, at))
        statement = ast.AugAssign(stored, operator, element) if operator else ast.Assign([stored], element)
        return nested(
            [(name, whole(0), extent) for name, extent in zip(points, target.extents, strict=True)], [statement]
        )


def nested(loops: Sequence[tuple[str, Quantity, Quantity]], body: list[ast.stmt]) -> list[ast.stmt]:
    """The body within `for name in range(low, high)` of each."""
    for name, low, high in reversed(loops):
        bounds = [high.node] if low.constant == 0 else [low.node, high.node]
        call = ast.Call(ast.Name("range", ast.Load()), bounds, [])
        body = [ast.For(ast.Name(name, ast.Store()), call, body, [])]
    return body


def subscript_names(node: ast.expr) -> Iterator[str]:
    """The arrays whose elements an expression reads."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            yield part.value.id


def _stored(node: ast.expr) -> ast.expr:
    match node:
        case ast.Subscript(value=value, slice=index):
            return ast.Subscript(value, index, ast.Store())
        case ast.Name(id=name):
            return ast.Name(name, ast.Store())
        case _:
            raise NotAffine(node, f"`{ast.unparse(node)}` cannot be assigned to")


def _axis(arguments: Sequence[ast.expr], words: dict[str, ast.expr]) -> int | None:
    node = arguments[0] if arguments else words.get("axis")
    match node:
        case None | ast.Constant(value=None):
            return None
        case ast.Constant(value=int() as axis):
            return axis
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as axis)):
            return -axis
        case _:
            raise NotAffine(node, "an axis must be one whole number")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_over_many(node: ast.expr) -> bool:
    match node:
        case ast.Slice() | ast.Attribute(attr="newaxis"):
            return True
        case ast.Constant(value=value):
            return value is None or value is Ellipsis
        case _:
            return False


def _is_plain(node: ast.Subscript) -> bool:
    """An element as the reader of expressions knows it."""
    base = node.value
    while isinstance(base, ast.Subscript):
        given = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
        if any(map(_is_over_many, given)):
            return False
        base = base.value
    return isinstance(base, ast.Name)
