"""Finds races in parallel loops, by luck of no thread: the loops run in order, and every use of memory is noted.

Two iterations race when one writes an element of an array that the other reads or writes. A variable that is assigned
in the loop belongs to the iteration, as Numba has it; so each iteration, and what follows the loop, finds it unbound.
Of arrays, what is used through subscripts is seen, which is all that generated code does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

READ, WRITE = "__loopwright_read__", "__loopwright_write__"


class RaceError(Exception):
    """Two iterations of a parallel loop use the same element, and at least one writes it."""


class RaceWatch:
    """What the iterations of the parallel loop that runs now have used."""

    def __init__(self) -> None:
        self._iteration: int | None = None
        self._writers: dict[int, int] = {}
        """By the element's address."""
        self._readers: dict[int, tuple[int, int]] = {}
        """The first and the last of the iterations that read it."""
        self._used: dict[int, Any] = {}
        """Arrays that must live as long as the loop, so that no address gets a second meaning."""

    @property
    def names(self) -> dict[str, Any]:
        """The globals that a watched module needs."""
        return {READ: self._read, WRITE: self._write}

    def prange(self, *bounds: int) -> Iterable[int]:
        """The iterations of a parallel loop; one within another runs as a part of the outer one's iteration."""
        return range(*bounds) if self._iteration is not None else self._iterations(range(*bounds))

    def _iterations(self, numbers: range) -> Iterator[int]:
        try:
            for self._iteration in numbers:
                yield self._iteration
        finally:
            self._iteration = None
            self._writers, self._readers, self._used = {}, {}, {}

    def _read(self, name: str, array: Any, index: Any) -> Any:
        now = self._iteration
        if now is not None and _is_element(array, index):
            self._used[id(array)] = array
            place = _address(array, index)
            writer = self._writers.get(place, now)
            if writer != now:
                raise RaceError(f"iteration {now} of a parallel loop reads {_text(name, index)}, which {writer} writes")
            self._readers[place] = (self._readers.get(place, (now, now))[0], now)
        return index

    def _write(self, name: str, array: Any, index: Any) -> Any:
        now = self._iteration
        if now is not None and isinstance(array, np.ndarray):
            self._used[id(array)] = array
            for place in _addresses(array, index):
                for other in (self._writers.get(place, now), *self._readers.get(place, ())):
                    if other != now:
                        uses = "writes" if place in self._writers else "reads"
                        raise RaceError(
                            f"iteration {now} of a parallel loop writes {_text(name, index)}, which {other} {uses}"
                        )
                self._writers[place] = now
        return index


def _is_element(array: Any, index: Any) -> bool:
    """Whether the subscript means one element; a part of an array is a view, whose own subscripts are seen."""
    numbers = index if isinstance(index, tuple) else (index,)
    return (
        isinstance(array, np.ndarray)
        and len(numbers) == array.ndim
        and all(isinstance(number, int | np.integer) for number in numbers)
    )


def _address(array: Any, index: Any) -> int:
    numbers = index if isinstance(index, tuple) else (index,)
    place = array.__array_interface__["data"][0]
    for number, length, stride in zip(numbers, array.shape, array.strides, strict=True):
        place += (int(number) + (length if number < 0 else 0)) * stride
    return place


def _addresses(array: Any, index: Any) -> Iterable[int]:
    if _is_element(array, index):
        return (_address(array, index),)
    part = array[index]
    return [_address(part, number) for number in np.ndindex(part.shape)]


def _text(name: str, index: Any) -> str:
    numbers = index if isinstance(index, tuple) else (index,)
    return f"{name}[{', '.join(str(number) for number in numbers)}]"


def watched(source: str) -> ast.Module:
    """The module in which a `RaceWatch` is told of every use of an element."""
    return ast.fix_missing_locations(_Watching().visit(ast.parse(source)))


class _Watching(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Del):
            name = node.value.id
            note = ast.Name(READ if isinstance(node.ctx, ast.Load) else WRITE, ast.Load())
            arguments = [ast.Constant(name), ast.Name(name, ast.Load()), _as_value(node.slice)]
            node.slice = ast.Call(note, arguments, [])
        return node

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        self.generic_visit(node)
        if not _is_parallel(node):
            return [node]
        own = sorted(_assigned(node.body) - _reductions(node.body))
        node.body = [*_unbinding(own), *node.body]
        return [node, *_unbinding([*own, *_assigned([node.target])])]


def _as_value(index: ast.expr) -> ast.expr:
    """A subscript as an expression that may stand anywhere."""
    match index:
        case ast.Slice(lower, upper, step):
            bounds = [part or ast.Constant(None) for part in (lower, upper, step)]
            return ast.Call(ast.Name("slice", ast.Load()), bounds, [])
        case ast.Tuple(elements):
            return ast.Tuple([_as_value(element) for element in elements], ast.Load())
        case _:
            return index


def _is_parallel(loop: ast.For) -> bool:
    match loop.iter:
        case ast.Call(func=ast.Name("prange") | ast.Attribute(attr="prange")):
            return True
        case _:
            return False


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> list[str]:
    parts = (part for node in nodes for part in ast.walk(node))
    return [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, context)]


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    return set(_names(nodes, ast.Store))


def _reductions(body: list[ast.stmt]) -> set[str]:
    """Variables that Numba sums up over the threads: used nowhere but to compute their own next value."""
    own: list[str] = []
    for part in (part for statement in body for part in ast.walk(statement)):
        match part:
            case ast.AugAssign(target=ast.Name(name)):
                own += [name, *(used for used in _names([part.value], ast.Load) if used == name)]
            case ast.Assign(targets=[ast.Name(name)]) if name in _names([part.value], ast.Load):
                own += [name, *(used for used in _names([part.value], ast.Load) if used == name)]
            case _:
                pass
    everywhere = _names(body, ast.Store) + _names(body, ast.Load)
    return {name for name in own if own.count(name) == everywhere.count(name)}


def _unbinding(names: Iterable[str]) -> list[ast.stmt]:
    return [line for name in names for line in ast.parse(f"{name} = None; del {name}").body]
