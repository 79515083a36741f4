"""A schedule: in which order the iterations of a nest run. An immutable tree of loops, sequences and leaves.

A leaf is one statement, or the part of it that an index-set split left there. It says itself which value each loop
around it has at each of its iterations, as an isl expression of the statement's iterators. So `interchange` only moves
loops, `tile` only adds entries, and the order of all iterations can be read off leaf by leaf:

    Loop(i_t)                          Leaf(S0, values={i_t: floor(i/32), i: i, j: j})
      Loop(i)
        Loop(j)  ->  Leaf(S0)

Loop names are unique within a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

WIDEST_VECTOR = 16
"""The most lanes of any vector."""


@dataclass(frozen=True, slots=True, order=True)
class Private:
    """Each iteration of a loop of the source has an array of its own in the place of this one."""

    array: str
    loop: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """All iterations of a statement that satisfy every condition in `where`."""

    statement: str
    values: Mapping[str, str]
    """Loop name -> isl expression of the statement's iterators, for each loop around this leaf."""
    where: tuple[str, ...] = ()
    """isl conditions on the statement's iterators and the parameters, from `split`."""
    private: tuple[Private, ...] = ()
    """What of the arrays it uses is private, from `privatize`."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs its body once for each value, ascending."""

    name: str
    body: Node
    is_parallel: bool = False
    """Iterations run on any thread, in any order."""
    from_ends: bool = False
    """A thread of a parallel loop gets iterations from both of its ends, not a block."""
    chunk: int = 0
    """How many iterations of a parallel loop a thread takes at a time, in turn with the others; 0: all of its share."""
    unroll: int = 1
    """How many iterations the generated code writes out; 0 means all of them (the trip count is a small constant)."""
    vector: int = 1
    """How many neighbouring iterations run at once, as lanes of vectors; 0: as many as the machine's vectors hold."""
    partials: int = 1
    """How many partial results a reduction has where iterations run at once, whose order is free then, as that of all
    its iterations; 0: as many as usual. 1: the order of reductions is as of anything else."""
    packs: tuple[str, ...] = ()
    """Arrays of which the register tiles inside read a copy in the order in which they read, made before it runs."""
    streams: tuple[str, ...] = ()
    """Arrays that its vectors are written to past the caches."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Runs its parts one after the other."""

    parts: tuple[Node, ...] = ()


Node: TypeAlias = Loop | Sequence | Leaf


def nodes(node: Node) -> Iterator[Node]:
    """The node and every one below, in order, outer before inner."""
    ahead = [node]
    while ahead:
        found = ahead.pop()
        yield found
        match found:
            case Leaf():
                pass
            case Loop():
                ahead.append(found.body)
            case Sequence():
                ahead.extend(reversed(found.parts))


def leaves(node: Node) -> Iterator[Leaf]:
    return (each for each in nodes(node) if isinstance(each, Leaf))


def loops(node: Node) -> Iterator[Loop]:
    return (each for each in nodes(node) if isinstance(each, Loop))


def sequences(node: Node) -> Iterator[Sequence]:
    return (each for each in nodes(node) if isinstance(each, Sequence))


def find_loop(node: Node, name: str) -> Loop | None:
    return next((loop for loop in loops(node) if loop.name == name), None)


def path_to(node: Node, name: str) -> tuple[Loop | Sequence, ...]:
    """The nodes from the root down to the loop of that name, that loop last; empty when there is none."""
    match node:
        case Leaf():
            return ()
        case Loop():
            if node.name == name:
                return (node,)
            below = path_to(node.body, name)
            return (node, *below) if below else ()
        case Sequence():
            for part in node.parts:
                if below := path_to(part, name):
                    return (node, *below)
            return ()


def map_leaves(node: Node, change: Callable[[Leaf], Leaf]) -> Node:
    """The same tree with every leaf changed."""
    match node:
        case Leaf():
            return change(node)
        case Loop():
            return replace(node, body=map_leaves(node.body, change))
        case Sequence():
            return Sequence(tuple(map_leaves(part, change) for part in node.parts))


def replace_loop(node: Node, name: str, change: Callable[[Loop], Node]) -> Node:
    """The same tree with the loop of that name replaced by what `change` makes of it."""
    match node:
        case Leaf():
            return node
        case Loop():
            if node.name == name:
                return change(node)
            return replace(node, body=replace_loop(node.body, name, change))
        case Sequence():
            return sequence_of(*(replace_loop(part, name, change) for part in node.parts))


def sequence_of(*parts: Node) -> Node:
    """A sequence without sequences directly inside it; a single part stands for itself."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def fresh_name(node: Node, wanted: str) -> str:
    """`wanted`, or with the first free suffix: `j`, `j_2`, `j_3`."""
    taken = {loop.name for loop in loops(node)}
    return next(name for name in [wanted, *(f"{wanted}_{k}" for k in range(2, len(taken) + 3))] if name not in taken)


def show(node: Node, indent: str = "") -> str:
    """The tree for people, one node a line."""
    match node:
        case Leaf():
            at = ", ".join(f"{name} = {value}" for name, value in node.values.items())
            where = f" where {' and '.join(node.where)}" if node.where else ""
            own = "".join(f" with its own {each.array} for each {each.loop}" for each in node.private)
            return f"{indent}{node.statement}: {at}{where}{own}"
        case Loop():
            marks = (" parallel" if node.is_parallel else "") + (" from both ends" if node.from_ends else "")
            marks += f" in chunks of {node.chunk}" if node.chunk else ""
            marks += f" unroll {node.unroll}" if node.unroll != 1 else ""
            marks += f" vector {node.vector}" if node.vector != 1 else ""
            marks += f" reduces {node.partials or 'in parts'}" if node.partials != 1 else ""
            marks += f" packs {', '.join(node.packs)}" if node.packs else ""
            marks += f" streams {', '.join(node.streams)}" if node.streams else ""
            return f"{indent}for {node.name}{marks}\n{show(node.body, indent + '  ')}"
        case Sequence():
            return "\n".join(show(part, indent) for part in node.parts)


def inconsistencies(tree: Node) -> tuple[str, ...]:
    """What is wrong with a tree as such, whatever the kernel; empty for every tree that a step returns."""
    names = [loop.name for loop in loops(tree)]
    found = [f"two loops are called {name}" for name in sorted({name for name in names if names.count(name) > 1})]

    def visit(node: Node, around: tuple[Loop, ...]) -> None:
        match node:
            case Leaf():
                expected, given = {loop.name for loop in around}, set(node.values)
                if expected != given:
                    found.append(f"{node.statement} is in loops {sorted(expected)} and has values of {sorted(given)}")
            case Loop():
                if node.is_parallel and any(loop.is_parallel for loop in around):
                    found.append(f"{node.name} is parallel inside a parallel loop")
                if node.is_parallel and node.unroll != 1:
                    found.append(f"{node.name} is parallel and unrolled")
                if node.vector != 1 and (node.is_parallel or node.unroll > 1):
                    found.append(f"{node.name} is vectorized, and parallel or unrolled in part")
                if node.streams and node.vector == 1:
                    found.append(f"{node.name} streams, and is not vectorized")
                visit(node.body, (*around, node))
            case Sequence():
                if len(node.parts) < 2 and node is not tree:
                    found.append(f"a sequence has {len(node.parts)} parts")
                for part in node.parts:
                    if isinstance(part, Sequence):
                        found.append("a sequence is directly inside a sequence")
                    visit(part, around)

    visit(tree, ())
    return tuple(found)
