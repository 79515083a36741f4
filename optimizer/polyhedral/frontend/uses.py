"""Types of arguments without annotations, by what a function does with them.

`A[i, j]` makes `A` an array of two dimensions whose extents are unknown symbols, what stands in a `range` or a
subscript is a whole number, and everything else is a float.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizer.polyhedral.frontend.names import target_names
from optimizer.polyhedral.frontend.source import Module

_LOOPS = frozenset({"range", "numba.prange"})
_MAKERS = frozenset(f"numpy.{name}" for name in ("zeros", "empty", "ones", "full", "eye", "arange"))


@dataclass(slots=True)
class Uses:
    """How the names in some statements are used."""

    ranks: dict[str, int] = field(default_factory=dict[str, int])
    """Of arrays: the most dimensions that some use shows."""
    whole: set[str] = field(default_factory=set[str])
    """Whole numbers that bounds, subscripts and shapes are made of."""

    whole_arrays: set[str] = field(default_factory=set[str])
    """Arrays whose elements are such numbers."""

    def type_of(self, name: str) -> tuple[str, tuple[None, ...] | None]:
        """The type of an argument, and its extents if it is an array."""
        if name in self.ranks:
            return "int64" if name in self.whole_arrays else "float64", (None,) * self.ranks[name]
        return "int64" if name in self.whole else "float64", None


def uses_of(module: Module, body: Sequence[ast.stmt]) -> Uses:
    """How the statements use their names."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    uses = Uses()
    for node in nodes:
        for name, rank in _shown_ranks(node):
            uses.ranks[name] = max(rank, uses.ranks.get(name, 0))
        for part in _whole_parts(module, node):
            uses.whole |= _names(part)
            uses.whole_arrays |= _arrays(part)
    before = -1
    while before != len(uses.whole):
        before = len(uses.whole)
        for node in nodes:
            for part in _parts_of_whole_numbers(node, uses.whole):
                uses.whole |= _names(part)
    uses.whole -= uses.ranks.keys()
    return uses


def _shown_ranks(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Arrays and how many dimensions a node shows that they have at least."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=dimension):
            if isinstance(dimension, ast.Constant) and isinstance(dimension.value, int):
                yield name, max(dimension.value + 1, 1)
        case ast.Subscript():
            count, base = 0, node
            while isinstance(base, ast.Subscript):
                count += _consumed(base.slice)
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id, max(count, 1)
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Attribute(value=ast.Name(id=name), attr="shape")):
            yield name, len(targets)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            yield name, 1
        case ast.Attribute(value=ast.Name(id=name), attr="T"):
            yield name, 2
        case _:
            return


def _consumed(index: ast.expr) -> int:
    """How many dimensions a subscript takes: `None` and `...` take none."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    taken = [part for part in parts if not (isinstance(part, ast.Attribute) and part.attr == "newaxis")]
    return sum(not isinstance(part, ast.Constant) or part.value not in (None, Ellipsis) for part in taken)


def _whole_parts(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The parts of a node that must be whole numbers."""
    match node:
        case ast.Call(func=function, args=arguments) if module.resolve(function) in _LOOPS:
            yield from arguments
        case ast.Call(func=function, args=[shape, *_]) if module.resolve(function) in _MAKERS:
            yield shape
        case ast.Subscript(slice=index):
            yield index
        case ast.For(target=target):
            yield from target_names(target)
        case _:
            return


def _parts_of_whole_numbers(node: ast.AST, whole: set[str]) -> Iterator[ast.expr]:
    """What else must be whole numbers if these are."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in whole and _is_sum(value):
            yield value
        case ast.Compare(left=left, comparators=comparators):
            sides = [left, *comparators]
            if all(_is_sum(side) for side in sides) and any(_names(side) & whole for side in sides):
                yield from sides
        case _:
            return


def _is_sum(node: ast.expr) -> bool:
    """Whether it is made of names and whole numbers by operations that keep them whole."""
    match node:
        case ast.Name():
            return True
        case ast.Constant(value=value):
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right=right):
            return _is_sum(left) and _is_sum(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_sum(operand)
        case ast.Call(func=ast.Name(id="min" | "max"), args=arguments):
            return all(map(_is_sum, arguments))
        case _:
            return False


def _names(node: ast.expr) -> set[str]:
    """The names in an expression that are not those of arrays or functions."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript(value=ast.Attribute()) | ast.Attribute() | ast.Subscript():
            return set()
        case ast.Call(args=arguments):
            return set[str]().union(*map(_names, arguments))
        case _:
            parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            return set[str]().union(*map(_names, parts))


def _arrays(node: ast.expr) -> set[str]:
    """The arrays of which elements stand in an expression."""
    match node:
        case ast.Subscript(value=base) if not isinstance(base, ast.Attribute):
            while isinstance(base, ast.Subscript):
                base = base.value
            return {base.id} if isinstance(base, ast.Name) else set()
        case _:
            parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            return set[str]().union(*map(_arrays, parts))
