"""Pieces of the source that are one step each, whatever they do inside: how often and to which elements data decide.

    for i in range(n):                                   S0[i]: acc = 0.0
        acc = 0.0                                        S1[i]: opaque; reads indptr[i], indptr[i + 1], data[*], ...
        for k in range(indptr[i], indptr[i + 1]):                       reads and writes acc
            acc += data[k] * x[indices[k]]               S2[i]: y[i] = acc
        y[i] = acc

A piece is the smallest statement with something that data decide in it: an assignment with such a subscript, a loop
with such a bound, a `while`, an `if` that assigns such elements, a loop that a `break` ends. It becomes one statement
of the nest, at its place in the loops around it, so that those are scheduled as ever. Its text is printed as it stands.

What it touches is taken for more than it may be. A subscript over loops around it is exact where it is proved to stay
inside its array, or where the piece evaluates it in any case (then the sizes are restricted as for all statements: a
negative subscript would mean another element). Any other one is `*`, all of the dimension. A write that the piece may
leave out keeps what was there, so it is a read as well: then dataflow, which asks for the last write before a read,
never takes it for the end of an older value. Variables that nothing outside knows, and that are assigned before they
are read, are no accesses at all; those that are surely assigned are written; others are read and written.

A schedule is legal if it keeps the order of all pairs that may touch one element, as for exact statements. What a piece
computes with is checked as everywhere: numbers, elements of arrays, pure functions of numbers. Whole arrays, parts of
arrays under other names, `return`, a `break` out of the piece, and exceptions are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import islpy as isl

from optimizer.name_flow import assigned, assigned_after, read_first
from optimizer.polyhedral.frontend.affine import Affine, Condition, NotAffine, affine
from optimizer.polyhedral.frontend.expressions import ExpressionReader, Reading
from optimizer.polyhedral.frontend.names import LoopNames
from optimizer.polyhedral.frontend.rejections import unsupported
from optimizer.polyhedral.frontend.scope import Scope
from optimizer.polyhedral.nest import ANYWHERE, Access


@dataclass(frozen=True, slots=True)
class Piece:
    """One opaque statement."""

    node: ast.stmt
    """Over unique names."""
    accesses: tuple[Access, ...]
    scalar_reads: dict[str, ast.Name]
    """Scalar variables that it may read, with where."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a piece stands in."""

    scope: Scope
    loop_names: LoopNames
    loops: tuple[str, ...]
    conditions: tuple[Condition, ...]
    """Of the loops and `if`s around it."""
    sizes: tuple[Affine, ...]
    """Those of arrays, which are not negative."""
    check_variable: Callable[[ast.Name], None]
    """Raises for a name that no assignment may change."""


def read_piece(around: Surroundings, node: ast.stmt) -> Piece:
    """The statement as a piece.

    Raises:
        SourceError: at the first thing in it that is not understood.
    """
    reader = _PieceReader(around, assigned([node]))
    rewritten = reader.statement(node)
    reading, exposed, certain = reader.reading, read_first([node]), assigned_after([node])
    accesses = [access for access in reading.accesses if access.subscripts]
    accesses += [Access(a.array, a.subscripts, is_write=False) for a in accesses if a.is_write]
    places = _first_places(node)
    scalar_reads: dict[str, ast.Name] = {}
    for name in dict.fromkeys((*reading.scalars, *reader.variables)):
        is_known = around.scope.names.mentioned[name] != len(places[name]) or name in around.scope.arguments
        is_written = name in reader.variables and (is_known or name in exposed)
        if name in exposed or (is_written and name not in certain):
            scalar_reads[name] = places[name][0]
            accesses.append(Access(name, (), is_write=False))
        if is_written:
            accesses.append(Access(name, (), is_write=True))
    return Piece(rewritten, tuple(dict.fromkeys(accesses)), scalar_reads)


def _first_places(node: ast.stmt) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.setdefault(part.id, []).append(part)
    return found


class _PieceReader(ExpressionReader):
    """Rewrites the statements of a piece and notes everything that they may touch."""

    def __init__(self, around: Surroundings, stored: frozenset[str]) -> None:
        super().__init__(around.scope)
        self.around = around
        self.stored = stored
        """Names that the piece assigns, its loops included."""
        self.reading = Reading()
        self.variables: dict[str, None] = {}
        """Those that are no loops."""
        self.loops: dict[str, str] = {}
        """Loops of the piece around what is being read -> their unique names."""
        self.depth = 0
        """How many of them there are, `while`s included: `break` must not leave the piece."""
        self.is_certain = True
        """Whether what is being read is evaluated each time the piece runs."""

    def statement(self, node: ast.stmt) -> ast.stmt:
        match node:
            case ast.Assign(targets=targets, value=value):
                rewritten = self._value(value)
                return ast.Assign([self._target(target) for target in targets], rewritten, lineno=node.lineno)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                rewritten = self._value(value)
                return ast.Assign([self._target(target)], rewritten, lineno=node.lineno)
            case ast.AugAssign(target=ast.Name() | ast.Subscript() as target, op=operator, value=value) if not (
                isinstance(operator, ast.MatMult)
            ):
                if isinstance(target, ast.Name):
                    self.reading.scalars.setdefault(target.id, target)
                changed = self._target(target)
                assert isinstance(changed, ast.Name | ast.Subscript)
                return ast.AugAssign(changed, operator, self._value(value))
            case ast.If(test=test, body=body, orelse=orelse):
                tested = self._value(test)
                return ast.If(tested, self._block(body), self._block(orelse) if orelse else [])
            case ast.While(test=test, body=body, orelse=[]):
                tested = self._value(test)
                return ast.While(tested, self._repeated(body), [])
            case ast.For(target=ast.Name() as target, iter=numbers, body=body, orelse=[]):
                return self._for(node, target, numbers, body)
            case ast.Break() | ast.Continue() if self.depth:
                return node
            case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
                return ast.Pass()
            case _:
                raise unsupported(self.scope.module.source, node)

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        self.is_certain = False
        return [self.statement(line) for line in body]

    def _repeated(self, body: list[ast.stmt]) -> list[ast.stmt]:
        self.depth += 1
        lines = self._block(body)
        self.depth -= 1
        return lines

    def _for(self, node: ast.For, target: ast.Name, numbers: ast.expr, body: list[ast.stmt]) -> ast.For:
        match numbers:
            case ast.Call(func=function, args=[_, *_] as bounds, keywords=[]) if len(bounds) <= 3:
                is_range = self.scope.module.resolve(function) in {"range", "numba.prange"}
            case _:
                is_range, bounds = False, []
        if not is_range or target.id in {*self.scope.loops, *self.loops, *self.variables}:
            raise unsupported(self.scope.module.source, node)
        values = [self._value(bound) for bound in bounds]
        self.loops[target.id] = name = self.around.loop_names.next(target.id)
        lines = self._repeated(body)
        del self.loops[target.id]
        call = ast.Call(ast.Name("range", ast.Load()), values, [])
        return ast.For(ast.Name(name, ast.Store()), call, lines, [], lineno=node.lineno)

    def _target(self, target: ast.expr) -> ast.expr:
        match target:
            case ast.Name(id=name):
                self.around.check_variable(target)
                self.variables[name] = None
                return target
            case ast.Subscript():
                written, access = self.element(target, is_write=True)
                self.reading.add(access)
                return written
            case ast.Tuple(elts=parts):
                return ast.Tuple([self._target(part) for part in parts], ast.Store())
            case _:
                raise unsupported(self.scope.module.source, ast.Assign([target], target, lineno=target.lineno))

    def _value(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self._value(part) for part in node.elts], ast.Load())
        return self.value(node, self.reading)

    def value(self, node: ast.expr, reading: Reading) -> ast.expr:
        match node:
            case ast.Name(id=name) if name in self.loops:
                return ast.Name(self.loops[name], ast.Load())
            case ast.IfExp() | ast.BoolOp() | ast.Compare(ops=[_, _, *_]):
                before, self.is_certain = self.is_certain, False
                rewritten = super().value(node, reading)
                self.is_certain = before
                return rewritten
            case _:
                return super().value(node, reading)

    def test(self, node: ast.expr, reading: Reading) -> ast.expr:
        return self.value(node, reading)

    def subscript(self, node: ast.expr, extent: Affine) -> tuple[ast.expr, str]:
        try:
            if self.stored.intersection(_names(node)):
                raise NotAffine(node, "the piece itself decides it")
            value = affine(node, self.scope.lookup)
        except NotAffine:
            return self.value(node, self.reading), ANYWHERE
        rewritten, text = super().subscript(node, extent)
        value = extent + value if value.is_constant and value.constant < 0 else value
        is_exact = self.is_certain or self._is_inside(value, extent)
        return rewritten, text if is_exact else ANYWHERE

    def _is_inside(self, value: Affine, extent: Affine) -> bool:
        """Whether a subscript stays inside its array wherever the piece runs."""
        conditions, sizes = self.around.conditions, self.around.sizes
        names = value.names.union(extent.names, *(c.names for c in conditions), *(size.names for size in sizes))
        parameters = ", ".join(sorted(names - {*self.around.loops}))
        known = [f"({condition.text})" for condition in conditions] + [f"{size} >= 0" for size in sizes]
        outside = " and ".join([*known, f"({value} < 0 or {value} >= {extent})"])
        return isl.Set(f"[{parameters}] -> {{ [{', '.join(self.around.loops)}] : {outside} }}").is_empty()


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
