"""What whole arrays are summed up to: reductions by axis, running sums, products of vectors and matrices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.polyhedral.frontend.accumulation import Accumulation, Term
from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.array_values import (
    ArrayValue,
    Build,
    Point,
    binary,
    broadcast_extents,
    computed,
    elementwise,
    part_of,
)
from optimizer.polyhedral.frontend.quantities import Quantity, ShapeError, counter, whole

REDUCTIONS = frozenset(
    ["sum", "prod", "min", "max", "amin", "amax", "mean", "var", "std", "any", "all", "argmin", "argmax"]
)
OPTIONS = {kind: {"axis", "keepdims", "dtype"} for kind in ("sum", "prod", "mean")} | {
    kind: {"axis", "keepdims", "ddof"} for kind in ("var", "std")
}
"""Of reductions that take more than an axis."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """Each result is an array or a number of its own, for which `accumulation` makes the loops."""

    accumulation: Accumulation
    each: Callable[[Sequence[ArrayValue], Build], ArrayValue]
    """Something computed from elements that stand at the same place."""
    numpy: Callable[[str], Build]
    """A call of one of NumPy's functions."""

    def running(
        self, function: str, value: ArrayValue, arguments: Sequence[ast.expr], words: Mapping[str, ast.expr]
    ) -> ArrayValue:
        """Sums or products of all elements up to each, in their order."""
        if set(words) - {"axis"}:
            raise ShapeError(f"np.{function} is supported with an axis only")
        over = _axes(arguments[0] if arguments else words.get("axis"), value.rank)
        if len(over) != 1:
            raise ShapeError(f"np.{function} of several dimensions needs an axis")
        operator = ast.Add() if function == "cumsum" else ast.Mult()
        dtype = np.asarray(getattr(np, function)(np.ones(1, value.dtype))).dtype.name
        return self.accumulation.running(value, over[0], operator, dtype)

    def product(self, left: ArrayValue, right: ArrayValue) -> ArrayValue:
        """`@`: a result of its own, summed up in the order of the common dimension."""
        if not 1 <= left.rank <= 2 or not 1 <= right.rank <= 2:
            raise ShapeError(f"a product of {left.rank} and {right.rank} dimensions is not supported")
        common = broadcast_extents([left.extents[-1:], right.extents[:1]])
        rows = left.rank - 1

        def factor(at: Point, along: Point) -> ast.expr:
            return ast.BinOp(left.element((*at[:rows], *along)), ast.Mult(), right.element((*along, *at[rows:])))

        term = Term((*left.extents[:-1], *right.extents[1:]), common, factor, (left.start(rows),))
        dtype = np.result_type(left.sample, right.sample).name
        if _is_transposed(left, right):
            return self.accumulation.symmetric(term, dtype)
        return self.accumulation.folded(term, ast.Add(), 0, dtype)

    def reduction(
        self, kind: str, value: ArrayValue, arguments: Sequence[ast.expr], words: Mapping[str, ast.expr]
    ) -> ArrayValue:
        """With NumPy's `axis`, `keepdims` and `ddof`; a `dtype` is that of the value already."""
        if set(words) - OPTIONS.get(kind, {"axis", "keepdims"}) or len(arguments) > 1:
            raise ShapeError(f"np.{kind} is supported with axis and keepdims only")
        freedom = _whole_number(words["ddof"]) if "ddof" in words else 0
        over = _axes(arguments[0] if arguments else words.get("axis"), value.rank)
        keeps = words.get("keepdims")
        is_kept = isinstance(keeps, ast.Constant) and keeps.value is True
        result = self._reduced(kind.removeprefix("a") if kind in {"amin", "amax"} else kind, value, over, freedom)
        if is_kept:
            every = [whole(1) if k in over else extent for k, extent in enumerate(value.extents)]
            kept = [k for k in range(value.rank) if k not in over]
            result = part_of(result, every, lambda point: tuple(point[k] for k in kept))
        return computed(result)

    def _reduced(self, kind: str, value: ArrayValue, over: Sequence[int], freedom: int = 0) -> ArrayValue:
        kept = [k for k in range(value.rank) if k not in over]

        def element(at: Point, along: Point) -> ast.expr:
            given = dict(zip((*kept, *over), (*at, *along), strict=True))
            return value.element(tuple(given[k] for k in range(value.rank)))

        extents, vanishing = ([value.extents[k] for k in which] for which in (kept, over))
        term = Term(tuple(extents), tuple(vanishing), element, tuple(value.start(k) for k in over))
        make = self.accumulation
        match kind:
            case "sum" | "prod":
                dtype = np.asarray(getattr(np, kind)(np.ones(1, value.dtype))).dtype.name
                operator, start = (ast.Add(), 0) if kind == "sum" else (ast.Mult(), 1)
                return make.folded(term, operator, start, dtype)
            case "mean":
                return self._mean(term, value, freedom)
            case "var" | "std":
                mean = self._spread(self._mean(term, value), value, kept)
                away = self.each([value, mean], binary(ast.Sub()))
                squares = self.each([away, away], binary(ast.Mult()))
                spread = self._reduced("mean", squares, over, freedom)
                return self.each([spread], self.numpy("sqrt")) if kind == "std" else spread
            case "min" | "max":
                call = self.numpy(f"{kind}imum")
                return make.joined(term, kind, value.dtype, None, lambda old, new: call([old, new]))
            case "any" | "all":
                operator = ast.Or() if kind == "any" else ast.And()

                def join(old: ast.expr, new: ast.expr) -> ast.expr:
                    return ast.BoolOp(operator, [old, ast.Compare(new, [ast.NotEq()], [ast.Constant(0)])])

                return make.joined(term, kind, "bool", ast.Constant(kind == "all"), join)
            case _:
                if len(over) > 1:
                    raise ShapeError(f"np.{kind} without an axis is supported for one dimension only")
                return make.position(term, value.dtype, ast.Lt() if kind == "argmin" else ast.Gt())

    def _mean(self, term: Term, value: ArrayValue, freedom: int = 0) -> ArrayValue:
        dtype = np.mean(np.ones(1, value.dtype)).dtype.name
        total = self.accumulation.folded(term, ast.Add(), 0, dtype)
        count = term.over[0].node
        for extent in term.over[1:]:
            count = ast.BinOp(count, ast.Mult(), extent.node)
        if freedom:
            count = ast.BinOp(count, ast.Sub(), ast.Constant(freedom))
        return elementwise([total], lambda parts: ast.BinOp(parts[0], ast.Div(), count), total.sample)

    def _spread(self, mean: ArrayValue, value: ArrayValue, kept: Sequence[int]) -> ArrayValue:
        """What is left of a value's dimensions, over all of them again."""
        extents = [extent if k in kept else whole(1) for k, extent in enumerate(value.extents)]
        return part_of(mean, extents, lambda point: tuple(point[k] for k in kept))


def _whole_number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ShapeError(f"`{ast.unparse(node)}` must be a whole number here")


def _is_transposed(left: ArrayValue, right: ArrayValue) -> bool:
    """Whether a matrix is another one with rows and columns exchanged."""
    if left.rank != 2 or right.rank != 2 or left.dtype != right.dtype:
        return False
    one, other = counter("one"), counter("other")
    is_same = ast.unparse(left.element((one, other))) == ast.unparse(right.element((other, one)))
    return is_same and all(map(Quantity.equals, left.extents, right.extents[::-1]))


def _axes(node: ast.expr | None, rank: int) -> tuple[int, ...]:
    """The dimensions that an axis argument names, all without one."""
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return tuple(range(rank))
    try:
        given: Any = ast.literal_eval(node)
    except ValueError:
        raise NotAffine(node, "an axis must be a whole number") from None
    axes: tuple[int, ...] = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(axis, int) and -rank <= axis < rank for axis in axes):
        raise ShapeError(f"axis {given} of {rank} dimensions")
    return tuple(sorted({axis % rank for axis in axes}))
