"""What the names in a kernel function mean at one place in it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from optimizer.polyhedral.frontend.affine import Affine, NotAffine, affine, as_extreme, expression_of, number, variable
from optimizer.polyhedral.frontend.array_values import ArrayValue
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.names import FunctionNames
from optimizer.polyhedral.frontend.source import Module


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable that stands for an affine expression: `m = n - 1`, `nx = A.shape[1]`."""

    value: Affine
    node: ast.expr
    """The same as Python source over loops and parameters."""
    is_inlined: bool = True
    """Whether it is replaced everywhere; if not, only in subscripts and conditions."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array as the source declares it."""

    dtype: str
    extents: tuple[Affine, ...]


@dataclass(slots=True)
class Scope:
    """The meaning of every name, while the function is walked in order."""

    module: Module
    function: str
    """The kernel's name."""
    names: FunctionNames
    arguments: dict[str, str]
    """Scalar argument -> dtype."""
    arrays: dict[str, ArrayInfo] = field(default_factory=dict[str, ArrayInfo])
    loops: dict[str, str] = field(default_factory=dict[str, str])
    """Loop variables that are bound here -> their unique names."""
    bindings: dict[str, Binding] = field(default_factory=dict[str, Binding])
    prologue: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Scalars computed from arguments before the nests -> what they are."""
    generated: frozenset[str] = frozenset()
    """Sizes and loops by their unique names, in statements that were made of others."""
    views: dict[str, ArrayValue] = field(default_factory=dict[str, "ArrayValue"])
    """Variables that stand for a part of an array."""
    samples: dict[str, Any] = field(default_factory=dict[str, Any])
    """Scalar variables that were made for array statements -> a value of their type."""
    truths: set[str] = field(default_factory=set[str])
    """Variables that were made to hold what a test says."""
    check_sizes: Callable[[Exception], None] = lambda _: None
    """Told what is wrong with the sizes of a statement, before it is told to anybody else."""
    used: set[str] = field(default_factory=set[str])
    """Names of integer arguments that occur in a bound, a condition, a subscript or a shape."""

    def undoing(self) -> Callable[[], None]:
        """What gives every name the meaning back that it has now."""
        arrays, loops, bindings = dict(self.arrays), dict(self.loops), dict(self.bindings)
        prologue, views, generated = dict(self.prologue), dict(self.views), self.generated
        sets = [(kept, set(kept)) for kept in (self.truths, self.used)]

        def undo() -> None:
            self.arrays, self.loops, self.bindings = dict(arrays), dict(loops), dict(bindings)
            self.prologue, self.views, self.generated = dict(prologue), dict(views), generated
            for noted, before in sets:
                noted.intersection_update(before)

        return undo

    def is_parameter(self, name: str) -> bool:
        """Whether it is an integer argument that never changes."""
        is_whole = self.arguments.get(name, "").startswith("int")
        return is_whole and name not in self.names.assigned and name not in self.names.loops

    def lookup(self, node: ast.expr) -> Affine | None:
        """The affine quantity that a name, `A.shape[k]` or `len(A)` stands for.

        Raises:
            NotAffine: with the reason, when it stands for anything else.
        """
        if (extent := self.extent(node)) is not None:
            return extent
        match node:
            case ast.Name(id=name) if name in self.generated:
                return variable(name)
            case ast.Name(id=name) if name in self.loops:
                return variable(self.loops[name])
            case ast.Name(id=name) if name in self.bindings:
                return self.bindings[name].value
            case ast.Name(id=name) if self.is_parameter(name):
                return variable(name)
            case ast.Name(id=name):
                if name not in self.names.assigned and (value := self.module.whole_number(name)) is not None:
                    return value
                raise NotAffine(node, self._why_not(name))
            case ast.Subscript():
                raise NotAffine(node, f"`{ast.unparse(node)}` is data: an element of an array")
            case ast.Constant():
                raise NotAffine(node, f"`{ast.unparse(node)}` is not a whole number")
            case _:
                return None

    def _why_not(self, name: str) -> str:
        if name in self.arrays:
            return f"`{name}` is a whole array"
        if name in self.names.loops:
            return f"loop variable `{name}` has no value outside its loop"
        if name in self.names.assigned:
            return f"`{name}` is a variable that is computed while the kernel runs"
        if name in self.arguments:
            return f"argument `{name}` is a {self.arguments[name]}, not a signed integer"
        return f"`{name}` is not an integer that is known here"

    def extent(self, node: ast.expr) -> Affine | None:
        """The size that `A.shape[k]`, `len(A)` or `A.size` reads; None when `node` is none of these."""
        match node:
            case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=dimension):
                try:
                    k = affine(dimension, lambda _: None)
                except NotAffine:
                    return None
                extents = self._extents(array)
                return extents[k.constant] if -len(extents) <= k.constant < len(extents) else None
            case ast.Call(func=ast.Name(id="len"), args=[array], keywords=[]):
                return next(iter(self._extents(array)), None)
            case ast.Attribute(value=array, attr="size") if len(extents := self._extents(array)) == 1:
                return extents[0]
            case ast.Attribute(value=array, attr="ndim") if extents := self._extents(array):
                return number(len(extents))
            case _:
                return None

    def shape(self, node: ast.expr) -> tuple[Affine, ...]:
        """The sizes that `A.shape` or `A.shape[:2]` reads; none when `node` is neither."""
        match node:
            case ast.Attribute(value=array, attr="shape"):
                return self._extents(array)
            case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=ast.Slice() as part):
                extents = self._extents(array)
                return tuple(extents[k] for k in positions(part, len(extents)))
            case _:
                return ()

    def _extents(self, node: ast.expr) -> tuple[Affine, ...]:
        match node:
            case ast.Name(id=name) if name in self.views:
                return tuple(extent.value for extent in self.views[name].extents)
            case ast.Name(id=name) if name in self.arrays:
                return self.arrays[name].extents
            case _:
                return ()

    def rewritten(self, node: ast.expr) -> ast.expr:
        """An affine expression or condition over unique loop names and parameters only."""
        return _Rewriter(self).visit(copied(node))


def positions(part: ast.Slice, count: int) -> range:
    """Which of `count` sizes a slice takes; none for one whose bounds are not constants."""
    try:
        ends = [None if end is None else ast.literal_eval(end) for end in (part.lower, part.upper, part.step)]
        return range(count)[slice(*ends)]
    except (ValueError, TypeError):
        return range(0)


class _Rewriter(ast.NodeTransformer):
    """Replaces every name and every size that is read off an array."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def visit(self, node: ast.AST) -> Any:
        extent = self.scope.extent(node) if isinstance(node, ast.expr) else None
        return super().visit(node) if extent is None else expression_of(extent)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.generic_visit(as_extreme(node) or node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name, scope = node.id, self.scope
        if name in scope.generated:
            return node
        if name in scope.loops:
            return ast.Name(scope.loops[name], ast.Load())
        if name in scope.bindings:
            return scope.bindings[name].node
        if name not in scope.arguments and (value := scope.module.whole_number(name)) is not None:
            return expression_of(value)
        return node
