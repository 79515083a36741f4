"""The loops of generated code, free of any target language: what every back end prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from optimizer.codegen.affine import Affine, Condition, substitute, substitute_condition


@dataclass(frozen=True, slots=True)
class Call:
    """One instance of a statement."""

    statement: str
    arguments: tuple[Affine, ...]
    """The value of each of the statement's iterators."""
    partial: int = 0
    """Which of several partial results it adds to."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives a name to a value for the rest of the block."""

    name: str
    value: Affine


@dataclass(frozen=True, slots=True)
class Boundary:
    """Gives a name, for the rest of the block, to a value from `start` to less than `lanes` after it: where a vector
    begins at a multiple of its size in memory."""

    name: str
    start: Affine
    array: str
    subscripts: tuple[Affine, ...]
    """At `start`; the last one grows with the value."""
    lanes: int


@dataclass(frozen=True, slots=True)
class Allocate:
    """Gets memory for an array that it has for the rest of the block."""

    array: str
    dtype: str
    extents: tuple[Affine, ...]
    fill: str = "empty"
    """Or zeros."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Other threads see all that was written past the caches before whatever is stored from now on."""


@dataclass(frozen=True, slots=True)
class Block:
    parts: tuple[LoopNode, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    condition: Condition
    then: LoopNode
    otherwise: LoopNode | None = None


@dataclass(frozen=True, slots=True)
class HeldElement:
    """An element of an array for which a variable stands while a loop runs."""

    array: str
    subscripts: tuple[Affine, ...]
    name: str
    """The variable."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Vectors that hold partial results of a reduction into one element."""

    call: Call
    """An instance of the statement that reduces."""
    array: str
    subscripts: tuple[Affine, ...]
    """The element."""
    names: tuple[str, ...]
    """The variables."""


@dataclass(frozen=True, slots=True)
class Reducing:
    """Loops of vector code that reduce: nothing is in the accumulators before, and afterwards they are combined with
    their elements. At least one iteration runs."""

    body: LoopNode

    @property
    def loop(self) -> For:
        """One of the vector loops, all of which have the same accumulators."""
        return next(node for node in walk(self.body) if isinstance(node, For) and node.accumulators)


@dataclass(frozen=True, slots=True)
class For:
    """Runs its body for start, start + step, ... as long as the iterator has not reached `stop`."""

    name: str
    """The loop of the schedule that this comes from; several `For` may come from one."""
    iterator: str
    """The variable."""
    start: Affine
    stop: Affine
    step: int
    """Not 0. Negative: the iterator descends to just above `stop`."""
    body: LoopNode
    is_parallel: bool = False
    from_ends: bool = False
    chunk: int = 0
    """As in the schedule, all three."""
    unroll: int = 1
    """As in the schedule; 1 once the copies are written out."""
    vector: int = 1
    """As in the schedule; then, where the loop is vector code, the lanes of its vectors."""
    partials: int = 1
    """As in the schedule."""
    packs: tuple[str, ...] = ()
    """As in the schedule."""
    streams: tuple[str, ...] = ()
    """As in the schedule."""
    mask: Mask | None = None
    """The lanes that run, where vector code does not run all of them."""
    note: str = ""
    """Something for the reader of the code."""
    held: tuple[HeldElement, ...] = ()
    """Loaded before the loop, which has an iteration then, and stored after it."""
    accumulators: tuple[Accumulator, ...] = ()
    """Those that vector code adds to; see `Reducing`."""


@dataclass(frozen=True, slots=True)
class Mask:
    """The lanes of a vector, `at` and those after it, that are from `first` up to, not including, `last`."""

    at: Affine
    first: Affine
    last: Affine

    def with_values(self, values: Mapping[str, Affine]) -> Mask:
        """The mask with names replaced."""
        return Mask(*(substitute(number, values) for number in (self.at, self.first, self.last)))


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A loop around calls for whole vectors; what they write stays in registers while it runs.

    At least one iteration runs.
    """

    loop: For
    """Its body is calls only; `vector` is the number of lanes."""
    axis: str
    """The variable that has one more in each lane."""
    binds: tuple[Bind, ...]
    """What the calls' arguments are made of."""
    masks: tuple[tuple[Mask, Mask], ...] = ()
    """Where the tile is not full, for each call: what it computes, and what may be read at least for it."""

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(calls(self.loop.body))


LoopNode: TypeAlias = Call | Bind | Boundary | Allocate | Fence | Block | If | For | RegisterTile | Reducing


def block_of(*parts: LoopNode) -> LoopNode:
    """A block without blocks directly inside it; a single part stands for itself."""
    flat: list[LoopNode] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Block) else (part,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def walk(node: LoopNode) -> Iterator[LoopNode]:
    """Every node, outer before inner, in order of the text."""
    yield node
    match node:
        case Call() | Bind() | Boundary() | Allocate() | Fence():
            return
        case Block(parts):
            for part in parts:
                yield from walk(part)
        case If(_, then, otherwise):
            yield from walk(then)
            if otherwise is not None:
                yield from walk(otherwise)
        case For() | Reducing():
            yield from walk(node.body)
        case RegisterTile():
            yield from walk(node.loop)


def calls(node: LoopNode) -> Iterator[Call]:
    return (inner for inner in walk(node) if isinstance(inner, Call))


def variables(node: LoopNode) -> frozenset[str]:
    """The names that loops and bindings give."""
    inner = tuple(walk(node))
    iterators = {part.iterator for part in inner if isinstance(part, For)}
    return frozenset(iterators | {part.name for part in inner if isinstance(part, Bind | Boundary)})


def is_innermost(loop: For) -> bool:
    return not any(isinstance(inner, For) for inner in walk(loop.body))


def has_parallel_loop(node: LoopNode) -> bool:
    return any(isinstance(inner, For) and inner.is_parallel for inner in walk(node))


def substitute_names(node: LoopNode, values: Mapping[str, Affine]) -> LoopNode:
    """The same loops with names replaced by values."""
    match node:
        case Call(_, arguments):
            return replace(node, arguments=tuple(substitute(argument, values) for argument in arguments))
        case Bind(name, value):
            return Bind(name, substitute(value, values))
        case Allocate():
            return replace(node, extents=tuple(substitute(extent, values) for extent in node.extents))
        case Block(parts):
            return Block(tuple(substitute_names(part, values) for part in parts))
        case If(condition, then, otherwise):
            return If(
                substitute_condition(condition, values),
                substitute_names(then, values),
                None if otherwise is None else substitute_names(otherwise, values),
            )
        case For():
            return replace(
                node,
                start=substitute(node.start, values),
                stop=substitute(node.stop, values),
                body=substitute_names(node.body, values),
                mask=None if node.mask is None else node.mask.with_values(values),
            )
        case Boundary() | Fence() | RegisterTile() | Reducing():
            raise ValueError("register tiles, vectors and fences are made last")
