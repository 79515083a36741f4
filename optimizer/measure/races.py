"""Finds races in parallel loops, by luck of no thread: the loops run in order, and every use of memory is noted.

Two iterations race when one writes an element of an array that the other reads or writes. A variable that is assigned
in the loop belongs to the iteration, as Numba has it; so each iteration, and what follows the loop, finds it unbound.
Of arrays, what is used through subscripts is seen, and through operations on vectors, which is all that generated code
does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_NOTES = 300_000
"""Of a call, so many uses are noted, which takes about a second."""
LOOP, READ, WRITE, LANES = (f"__loopwright_{name}__" for name in ("loop", "read", "write", "lanes"))
VECTOR_MODULE = "optimizer.codegen.simd"
MEMORY_OPERATIONS = frozenset({"load", "load_masked", "gather", "gather_masked", "store", "store_masked", "scatter"})
"""Of that module: they use elements of their first argument."""


class RaceError(Exception):
    """Two iterations of a parallel loop use the same element, and at least one writes it."""


class RaceWatch:
    """What the iterations of the parallel loop that runs now have used."""

    def __init__(self, loops: int, vectors: int) -> None:
        """`loops` is how many parallel loops the module has, `vectors` how many places that use memory by vectors."""
        self._lengths = [0] * loops
        """The most iterations that each has had."""
        self._unseen = set(range(vectors))
        self._notes = 0
        self._iteration: int | None = None
        self._writers: dict[int, int] = {}
        """By the element's address."""
        self._readers: dict[int, tuple[int, int]] = {}
        """The first and the last of the iterations that read it."""
        self._arrays: dict[int, Layout] = {}
        """Arrays live as long as the loop, so that no address gets a second meaning."""

    @property
    def has_seen_all(self) -> bool:
        """Whether in some call every loop has had two iterations, with fewer there is nothing to see, and every vector
        has been used."""
        return not self._unseen and all(length >= 2 for length in self._lengths)

    @property
    def names(self) -> dict[str, Any]:
        """The globals that a watched module needs."""
        return {LOOP: self._loop, READ: self.read, WRITE: self.write, LANES: self._lanes}

    def _loop(self, loop: int, *bounds: int) -> Iterable[int]:
        """The iterations of a parallel loop; one within another runs as a part of the outer one's iteration."""
        numbers = range(*bounds)
        self._lengths[loop] = max(self._lengths[loop], len(numbers))
        return numbers if self._iteration is not None else self._iterations(numbers)

    def begin(self) -> None:
        """A call of the function begins."""
        self._notes = 0
        self._forget()

    def _forget(self) -> None:
        self._iteration = None
        self._writers, self._readers, self._arrays = {}, {}, {}

    def _iterations(self, numbers: range) -> Iterator[int]:
        try:
            for self._iteration in numbers:
                yield self._iteration
        finally:
            self._forget()

    def _lanes(self, place: int, name: str, array: Any) -> Any:
        self._unseen.discard(place)
        return array if self._iteration is None else NotedArray(self, name, array)

    def read(self, name: str, array: Any, index: Any) -> Any:
        now = self._iteration
        if now is None or self._notes > MOST_NOTES:
            return index
        self._notes += 1
        for place in self._layout(array).elements(index):
            writer = self._writers.get(place, now)
            if writer != now:
                raise RaceError(f"iteration {now} of a parallel loop reads {_text(name, index)}, which {writer} writes")
            readers = self._readers.get(place)
            if readers is None or readers[1] != now:
                self._readers[place] = (readers[0] if readers else now, now)
        return index

    def write(self, name: str, array: Any, index: Any) -> Any:
        now = self._iteration
        if now is None or self._notes > MOST_NOTES:
            return index
        self._notes += 1
        layout = self._layout(array)
        for place in layout.elements(index) or layout.part(index):
            writer = self._writers.get(place)
            if writer != now:
                others = [other for other in self._readers.get(place, ()) if other != now]
                if writer is not None or others:
                    use = f"{others[0]} reads" if writer is None else f"{writer} writes"
                    raise RaceError(f"iteration {now} of a parallel loop writes {_text(name, index)}, which {use}")
                self._writers[place] = now
        return index

    def _layout(self, array: Any) -> Layout:
        layout = self._arrays.get(id(array))
        if layout is None:
            layout = self._arrays[id(array)] = Layout(array)
        return layout


@dataclass(frozen=True, slots=True)
class NotedArray:
    """An array in the hands of an operation on vectors, which uses one lane's element after the other."""

    watch: RaceWatch
    name: str
    array: Any

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __getitem__(self, index: Any) -> Any:
        return self.array[self.watch.read(self.name, self.array, index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[self.watch.write(self.name, self.array, index)] = value


class Layout:
    """Where the elements of an array lie in memory; nowhere for what is no array."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._is_array = isinstance(array, np.ndarray)
        self._start: int = array.__array_interface__["data"][0] if self._is_array else 0
        self._steps: list[tuple[int, int]] = list(
            zip(array.shape, array.strides, strict=True) if self._is_array else ()
        )

    def elements(self, index: Any) -> tuple[int, ...]:
        """The address of the one element that a subscript means; none where it means a part, which is a view."""
        numbers = index if isinstance(index, tuple) else (index,)
        if not self._is_array or len(numbers) != len(self._steps):
            return ()
        place = self._start
        for number, (length, stride) in zip(numbers, self._steps, strict=True):
            if not isinstance(number, int | np.integer):
                return ()
            place += (int(number) + (length if number < 0 else 0)) * stride
        return (place,)

    def part(self, index: Any) -> list[int]:
        """The addresses of the elements of a part."""
        if not self._is_array:
            return []
        view = Layout(self._array[index])
        return [place for number in np.ndindex(self._array[index].shape) for place in view.elements(number)]


def _text(name: str, index: Any) -> str:
    numbers = index if isinstance(index, tuple) else (index,)
    return f"{name}[{', '.join(str(number) for number in numbers)}]"


def watched(source: str) -> tuple[ast.Module, RaceWatch]:
    """The module in which a `RaceWatch` is told of every use of an element, and that watch."""
    watching = _Watching()
    module = ast.fix_missing_locations(watching.visit(ast.parse(source)))
    return module, RaceWatch(watching.loops, watching.vectors)


@dataclass(frozen=True, slots=True)
class WatchedFunction:
    """A function of a watched module. Raises `RaceError` when iterations get in each other's way."""

    function: Callable[..., Any]
    watch: RaceWatch

    def __call__(self, *arguments: Any) -> Any:
        self.watch.begin()
        return self.function(*arguments)


class _Watching(ast.NodeTransformer):
    def __init__(self) -> None:
        self.loops = self.vectors = 0
        self._operations: set[str] = set()
        """What the module calls the operations on vectors that use memory."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if node.module == VECTOR_MODULE:
            self._operations |= {alias.asname or alias.name for alias in node.names if alias.name in MEMORY_OPERATIONS}
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name(operation), [ast.Name(array), *rest]) if operation in self._operations:
                place: list[ast.expr] = [ast.Constant(self.vectors), ast.Constant(array), ast.Name(array, ast.Load())]
                node.args = [ast.Call(ast.Name(LANES, ast.Load()), place, []), *rest]
                self.vectors += 1
            case _:
                pass
        return node

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
        assert isinstance(node.iter, ast.Call)
        node.iter = ast.Call(ast.Name(LOOP, ast.Load()), [ast.Constant(self.loops), *node.iter.args], [])
        self.loops += 1
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
