"""Loops for what is accumulated over dimensions: sums and products, extremes and where they are, running sums."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from optimizer.polyhedral.frontend.array_values import ArrayValue, Point, named_array, scalar
from optimizer.polyhedral.frontend.quantities import Quantity, counter, of_affine, whole
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope

Join: TypeAlias = Callable[[ast.expr, ast.expr], ast.expr]


class FreeSum(ast.AugAssign):
    """A sum or a product of floating-point numbers that NumPy does in an order of its own."""


class FreeExtreme(ast.Assign):
    """A least or a greatest floating-point number that NumPy finds in an order of its own: of zeros of both signs it
    may be either."""


@dataclass(frozen=True, slots=True)
class Term:
    """What is accumulated: at each point of the result, one value for each point of the dimensions that vanish."""

    extents: tuple[Quantity, ...]
    """Of the result."""
    over: tuple[Quantity, ...]
    element: Callable[[Point, Point], ast.expr]
    starts: tuple[Quantity, ...] = ()
    """Where the loops over the dimensions that vanish begin best."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Makes arrays and the loops that fill them, which collect in `before`."""

    scope: Scope
    declare: Callable[[str, ArrayInfo], None]
    before: list[ast.stmt]

    def folded(self, term: Term, operator: ast.operator, start: int, dtype: str) -> ArrayValue:
        """The sum or the product, in the order of the loops."""
        initial = ast.Constant(float(start) if dtype.startswith("float") else start)
        result = self.made("product" if start else "sum", dtype, term.extents)
        statement = FreeSum if dtype.startswith("float") else ast.AugAssign
        self._for_each(term, False, lambda at, _: [ast.Assign([stored(result.element(at))], initial)])
        self._for_each(
            term,
            True,
            lambda at, along: [statement(stored(result.element(at)), operator, term.element(at, along))],
        )
        return result

    def symmetric(self, term: Term, dtype: str) -> ArrayValue:
        """The sum where a result of two equal extents does not change with their order: half of it is added up.

        As BLAS does for `A.T @ A` (`syrk`).
        """
        result = self.made("sum", dtype, term.extents)
        initial = ast.Constant(0.0 if dtype.startswith("float") else 0)
        statement = FreeSum if dtype.startswith("float") else ast.AugAssign
        size, zero, start = term.extents[0], whole(0), (term.starts or (whole(0),))[0]
        i, j = self.counters(2)
        lines: list[ast.stmt] = [ast.Assign([stored(result.element((i, j)))], initial)]
        self.before.extend(nested((i, j), (zero, i), (size, size - i), lines))
        *at, along = self.counters(3)
        lines = [statement(stored(result.element(tuple(at))), ast.Add(), term.element(tuple(at), (along - start,)))]
        self.before.extend(nested((*at, along), (zero, at[0], start), (size, size - at[0], term.over[0]), lines))
        i, j = self.counters(2)
        lines = [ast.Assign([stored(result.element((i, j)))], result.element((j, i)))]
        self.before.extend(nested((i, j), (zero, zero), (size, i), lines))
        return result

    def joined(
        self,
        term: Term,
        wanted: str,
        dtype: str,
        start: ast.expr | None,
        join: Callable[[ast.expr, ast.expr], ast.expr],
    ) -> ArrayValue:
        """`result = join(result, element)` for each; without a start, from the first element."""
        result = self.made(wanted, dtype, term.extents)
        self._start(term, result, start)
        statement = FreeExtreme if dtype.startswith("float") else ast.Assign
        self._for_each(
            term,
            True,
            lambda at, along: [
                statement([stored(result.element(at))], join(result.element(at), term.element(at, along)))
            ],
        )
        return result

    def position(self, term: Term, dtype: str, sign: ast.cmpop) -> ArrayValue:
        """Where the first extreme is; as in NumPy, the first NaN is the extreme. One dimension vanishes."""
        best = self.made("best", dtype, term.extents)
        result = self.made("position", "int64", term.extents)
        self._start(term, best, None)
        self._for_each(term, False, lambda at, _: [ast.Assign([stored(result.element(at))], ast.Constant(0))])

        def steps(at: Point, along: Point) -> list[ast.stmt]:
            new, old = term.element(at, along), best.element(at)
            is_better: ast.expr = ast.Compare(new, [sign], [old])
            if dtype.startswith("float"):
                is_first_nan = [ast.Compare(new, [ast.NotEq()], [new]), ast.Compare(old, [ast.Eq()], [old])]
                is_better = ast.BoolOp(ast.Or(), [is_better, ast.BoolOp(ast.And(), list[ast.expr](is_first_nan))])
            place = result.element(at)
            return [
                ast.Assign([stored(place)], ast.IfExp(is_better, along[0].node, place)),
                ast.Assign([stored(old)], ast.IfExp(is_better, new, old)),
            ]

        self._for_each(term, True, steps)
        return result

    def running(self, value: ArrayValue, over: int, operator: ast.operator, dtype: str) -> ArrayValue:
        """All elements up to each along one dimension, in order."""
        result = self.made("running", dtype, value.extents)
        at = self.counters(value.rank)
        before = tuple(one - whole(1) if k == over else one for k, one in enumerate(at))
        first = tuple(whole(0) if k == over else one for k, one in enumerate(at))
        outer = [k for k in range(value.rank) if k != over]
        start = ast.Assign([stored(result.element(first))], value.element(first))
        joined = ast.BinOp(result.element(before), operator, value.element(at))
        step = ast.Assign([stored(result.element(at))], joined)
        rest = nested((at[over],), (whole(1),), (value.extents[over] - whole(1),), [step])
        # Without elements there is no first one.
        only = nested((self.counters(1)[0],), (whole(0),), (whole(1),), [start])
        guard = ast.If(ast.Compare(value.extents[over].node, [ast.Gt()], [ast.Constant(0)]), only, [])
        outermost = tuple(at[k] for k in outer), (whole(0),) * len(outer), tuple(value.extents[k] for k in outer)
        self.before.extend(nested(*outermost, [guard, *rest]))
        return result

    def stores(
        self, target: ArrayValue, element: Callable[[Point], ast.expr], operator: ast.operator | None = None
    ) -> list[ast.stmt]:
        """The loops that write every element of `target`."""
        names = self.counters(target.rank)
        starts = [target.start(k) for k in range(target.rank)]
        at = tuple(name - start for name, start in zip(names, starts, strict=True))
        place = stored(target.element(at))
        statement = ast.AugAssign(place, operator, element(at)) if operator else ast.Assign([place], element(at))
        return nested(names, starts, target.extents, [statement])

    def made(self, wanted: str, dtype: str, extents: Sequence[Quantity]) -> ArrayValue:
        """A new array; without dimensions, a new variable."""
        name = self.scope.names.fresh(wanted)
        if extents:
            return self.declared(name, dtype, extents)
        self.scope.names.assigned[name] += 2
        sample: Any = np.ones(1, dtype)[0]
        self.scope.samples[name] = sample
        return scalar(ast.Name(name, ast.Load()), sample)

    def declared(self, name: str, dtype: str, extents: Sequence[Quantity]) -> ArrayValue:
        """A new array of this name. Raises `ShapeError` for an extent that is not linear."""
        sizes = [of_affine(extent.value) for extent in extents]
        self.declare(name, ArrayInfo(dtype, tuple(size.value for size in sizes)))
        made = named_array(name, dtype, sizes)
        if any(size.value != own for size, own in zip(sizes, self.scope.arrays[name].extents, strict=True)):
            self.scope.views[name] = made
        return made

    def counters(self, rank: int) -> Point:
        """New loop variables."""
        return tuple(counter(self.scope.names.fresh("ijklmn"[k % 6])) for k in range(rank))

    def _start(self, term: Term, result: ArrayValue, start: ast.expr | None) -> None:
        origin = tuple(whole(0) for _ in term.over)
        self._for_each(
            term, False, lambda at, _: [ast.Assign([stored(result.element(at))], start or term.element(at, origin))]
        )

    def _for_each(self, term: Term, is_over: bool, body: Callable[[Point, Point], list[ast.stmt]]) -> None:
        at = self.counters(len(term.extents))
        zeros = [whole(0)] * len(at)
        if not is_over:
            self.before.extend(nested(at, zeros, term.extents, body(at, ())))
            return
        names = self.counters(len(term.over))
        starts = term.starts or (whole(0),) * len(names)
        along = tuple(name - start for name, start in zip(names, starts, strict=True))
        self.before.extend(nested((*at, *names), (*zeros, *starts), (*term.extents, *term.over), body(at, along)))


def nested(
    variables: Point, starts: Sequence[Quantity], extents: Sequence[Quantity], body: Sequence[ast.stmt]
) -> list[ast.stmt]:
    """The body in loops over these variables, from their starts on, outermost first."""
    lines: list[ast.stmt] = list(body)
    for variable, start, extent in reversed(list(zip(variables, starts, extents, strict=True))):
        target = ast.Name(ast.unparse(variable.node), ast.Store())
        bounds = [extent.node] if start.constant == 0 else [start.node, (start + extent).node]
        lines = [ast.For(target, ast.Call(ast.Name("range", ast.Load()), bounds, []), lines, [])]
    return lines


def stored(node: ast.expr) -> ast.Name | ast.Subscript:
    """The place that an expression reads, to be written."""
    match node:
        case ast.Subscript(value=value, slice=index):
            return ast.Subscript(value, index, ast.Store())
        case ast.Name(id=name):
            return ast.Name(name, ast.Store())
        case _:
            raise ValueError(f"{ast.unparse(node)} is no place")
